"""The pages in a real browser. Timings are printed, and never fail a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from djgnn.report.page import write_comparison_page
from djgnn.report.run_data import load_run

PANELS = ("panel-weights", "panel-support", "panel-graph", "panel-points")
PHONE = {"viewport": {"width": 390, "height": 844}}
INTERACTIONS = {
    "slider": "const s = byId('epoch'); s.value = 1; s.dispatchEvent(new Event('input'))",
    "filter": "const s = byId('filter'); s.value = 1; s.dispatchEvent(new Event('change'))",
    "choose a node": "choose(3)",
    "search": "const s = byId('node-search'); s.value = '1'; s.dispatchEvent(new Event('input'))",
    "theme": "byId('theme').click()",
    "part": "const s = byId('part'); s.dispatchEvent(new Event('change'))",
}


@pytest.fixture(scope="module")
def opened(visit: Any, run_folder: Path) -> Any:
    return visit(run_folder / "report.html")


@pytest.fixture(scope="module")
def compared(visit: Any, comparison: Path) -> Any:
    return visit(comparison)


def check_quiet(visited: Any) -> None:
    assert visited.complaints == []
    local = [url for url in visited.requests if url.startswith(("file:", "data:", "blob:"))]
    assert visited.requests == local
    assert len([url for url in visited.requests if url.startswith("file:")]) == 1


def check_accessible(visited: Any, *rules: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core")
    if visited.page.locator("#node-search").count():
        visited.page.fill("#node-search", "hub0")  # a few rows look like all of them
    options = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    found = axe.Axe().run(visited.page, options=options).response["violations"]
    bad = [
        (v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert bad == []


def width(visited: Any) -> int:
    return int(visited.page.evaluate("document.documentElement.scrollWidth"))


def test_every_view_has_its_marks(opened: Any, run_folder: Path) -> None:
    run = load_run(run_folder)
    n, experts, branches = run.graph.num_nodes, run.card["experts"], len(run.alpha)
    (shown,) = (e for e in experts if e["name"] == run.shown.name)
    page = opened.page
    assert opened.marks("losses") == opened.marks("scores") == len(run.owners) + len(experts)
    assert page.locator("#losses .scatterlayer .trace").count() == 2 * len(experts)
    used = [e for e in experts if e["weight"] >= 0.0005]
    assert page.locator("#experts tbody tr").count() == len(used) + 1
    assert page.locator("#experts .fill").count() == 2 * len(used)
    assert opened.marks("alpha") == branches
    assert opened.marks("alpha-epochs") == branches * shown["epochs"]
    assert page.locator("#alpha .bars path, #alpha .point path").count() == branches
    assert page.locator("#confusion tbody tr").count() == 4
    assert page.locator("#class-scores tbody tr").count() == 4
    assert opened.marks("panel-weights") == n * n
    assert opened.marks("panel-points") == n
    assert opened.marks("panel-graph") == n + opened.marks("panel-support")
    assert 0 < opened.marks("panel-support") <= n
    assert page.locator("#jump-rings path.node").count() == 5
    assert page.locator("#hop-rings path.node").count() > 0
    assert page.locator("#node-table tbody tr").count() == min(n, 200)
    assert page.locator("#cosine tbody td").count() == 25
    assert opened.marks("energies") == 10
    assert opened.marks("alignment") > 0
    assert page.locator("#graph-card tbody tr").count() > 15


def test_numbers_in_the_headline_are_the_card(opened: Any, run_folder: Path) -> None:
    result = json.loads((run_folder / "result.json").read_text("utf-8"))["result"]
    tiles = opened.page.locator(".tile .value").all_inner_texts()
    assert tiles[0] == f"{result['test']:.2f}%"
    assert tiles[1] == f"{result['validation']:.2f}%"
    assert tiles[3] == "3 experts"


def test_one_expert_s_curves_are_shown_on_request(opened: Any, run_folder: Path) -> None:
    run = load_run(run_folder)
    shown = next(e for e in run.card["experts"] if e["name"] == run.shown.name)
    opened.page.select_option("#learner", label=shown["name"])
    assert opened.marks("losses") == 6 * shown["epochs"]
    assert opened.marks("scores") == 2 * shown["epochs"]
    assert f"kept epoch is {shown['epoch']} " in opened.page.get_attribute("#scores", "aria-label")
    opened.page.select_option("#learner", label="all")
    assert opened.marks("scores") == len(run.owners) + 3


def test_a_page_of_one_network(visit: Any, network_folder: Path) -> None:
    visited, run = visit(network_folder / "report.html"), load_run(network_folder)
    epochs, page = len(run.owners), visited.page
    assert visited.marks("losses") == 6 * epochs
    assert visited.marks("scores") == 2 * epochs
    assert visited.marks("alpha-epochs") == len(run.alpha) * epochs
    assert page.locator(".tile .value").all_inner_texts()[3] == str(run.kept)
    assert page.locator("#experts, #learner").count() == 0
    assert page.locator("#jump-rings path.node").count() == 5
    page.click("#node-card summary")
    assert page.locator("#node-card h3").all_inner_texts()[1:3] == ["Probabilities", "Branches"]
    check_quiet(visited)


def test_where_nothing_jumps_one_line_says_so(visit: Any, still_folder: Path) -> None:
    visited = visit(still_folder / "report.html")
    for name in ("player", "rings", "environment"):
        text = visited.page.locator(f"#{name}").inner_text().lower()
        assert "left out" in text
        assert text.strip().count("\n") <= 2
    assert visited.page.locator("#experts table").is_visible()
    visited.page.click("#node-card summary")
    assert visited.page.locator("#alpha").count() == 0
    headings = visited.page.locator("#node-card h3").all_inner_texts()
    heaviest = load_run(still_folder).shown.name
    assert headings[1:] == ["Probabilities", "Experts", f'Branches of the expert "{heaviest}"']
    check_quiet(visited)


def test_one_slider_moves_four_panels(opened: Any) -> None:
    page = opened.page
    before = [opened.pixels(name) for name in PANELS]
    page.evaluate("byId('epoch').focus()")
    page.keyboard.press("Home")
    after = [opened.pixels(name) for name in PANELS]
    assert all(a != b for a, b in zip(before, after, strict=True))
    assert "epoch 0" in page.get_attribute("#panel-points", "aria-label")
    assert page.locator("#player-readout").inner_text().startswith("Epoch 0,")
    page.keyboard.press("ArrowRight")
    assert page.locator("#player-readout").inner_text().startswith("Epoch 1,")


def test_another_filter_moves_the_support_alone(opened: Any) -> None:
    before = [opened.pixels(name) for name in PANELS]
    opened.page.select_option("#filter", "4")
    after = [opened.pixels(name) for name in PANELS]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, False, True]


def test_the_player_plays_and_pauses(opened: Any) -> None:
    page = opened.page
    page.click("#play")
    assert page.locator("#play").inner_text() == "Pause"
    page.wait_for_timeout(600)
    page.click("#play")
    assert page.locator("#play").inner_text() == "Play"
    assert int(page.input_value("#epoch")) > 1


def test_search_finds_a_node_and_shows_why(opened: Any, run_folder: Path) -> None:
    page = opened.page
    page.fill("#node-search", "onerror")
    assert page.locator("#node-table tbody tr").count() == 1
    page.click("#node-table tbody button")
    card = page.locator("#node-card")
    assert "<img src=x onerror=alert(1)>" in card.inner_text()
    assert card.locator("img").count() == 0
    page.fill("#node-search", "no such node")
    assert page.locator("#node-count").inner_text() == "0 nodes match."
    page.fill("#node-search", "")
    page.select_option("#node-outcome", "wrong")
    marked = page.locator("#node-table tbody .tag").count()
    assert marked == page.locator("#node-table tbody tr").count()
    page.select_option("#node-outcome", "")


def test_heads_sort_the_nodes(opened: Any) -> None:
    page = opened.page
    for name, place in (("margin", 5), ("probability", 4)):
        for up in (False, True):
            page.click(f"#node-table thead button:has-text('{name}')")
            cells = page.locator(f"#node-table tbody td:nth-child({place})").all_inner_texts()
            assert cells == sorted(cells, key=float, reverse=not up)
            said = page.get_attribute(f"#node-table thead th:nth-child({place})", "aria-sort")
            assert said == ("ascending" if up else "descending")
    page.evaluate("nodes.sort = ''; drawNodeTable()")


def test_a_node_is_found_by_keyboard_in_the_rings(opened: Any) -> None:
    page = opened.page
    page.fill("#ring-search", 'quote"')
    assert page.locator("#ring-matches li").count() == 1
    page.press("#ring-search", "Enter")
    assert "quote\" and 'quote'" in page.locator("#ring-node").inner_text()
    assert "quote\" and 'quote'" in page.locator("#node-card h3").first.inner_text()


def test_rings_are_what_their_names_say(opened: Any, run_folder: Path) -> None:
    run, node = load_run(run_folder), 3
    a = run.graph.adjacency
    near = set(a[[node]].indices) | set(a.T.tocsr()[[node]].indices)
    first, second, *_ = opened.page.evaluate(f"hopRings({node}).rings.map((ring) => ring.all)")
    assert set(first) == near - {node}
    assert not set(first) & set(second)
    jumps = opened.page.evaluate(f"jumpRings({node}).map((ring) => ring.all)")
    assert jumps == [[j] for j in run.ranks[node]]


def test_contributions_add_up_on_the_page(opened: Any) -> None:
    total, parts = opened.page.evaluate(
        """() => { choose(7); const n = [...document.querySelectorAll('#node-card .bars')][2];
        const read = (t) => Number(t.replace('\\u2212', '-').replace('+', ''));
        const parts = [...n.querySelectorAll('.number')].map((e) => read(e.textContent));
        const said = n.parentElement.querySelector('p').textContent.match(/together (.*)\\.$/)[1];
        return [read(said), parts.reduce((a, b) => a + b, 0)]; }"""
    )
    assert total == pytest.approx(parts, abs=0.01)


def test_shares_of_the_experts_add_up_on_the_page(opened: Any, run_folder: Path) -> None:
    run = load_run(run_folder)
    names, parts, said = opened.page.evaluate(
        """() => { choose(7); const n = [...document.querySelectorAll('#node-card .bars')][1];
        const texts = (kind) => [...n.querySelectorAll(kind)].map((e) => e.textContent);
        return [texts(':scope > span:not(.number)'), texts('.number').map(Number),
        Number(n.parentElement.querySelector('p').textContent.match(/together (.*),/)[1])]; }"""
    )
    assert sorted(names) == sorted(run.shares)
    assert parts == sorted(parts, reverse=True)
    best = run.predicted[7]
    assert parts == pytest.approx([run.shares[n][7, best] for n in names], abs=6e-4)
    assert said == pytest.approx(sum(parts), abs=2e-3)


def test_names_are_text_everywhere(opened: Any) -> None:
    page = opened.page
    assert page.locator("#confusion thead").inner_text().count("<b>bold</b>") == 1
    assert page.evaluate("document.querySelectorAll('main img, main b, main script').length") == 0
    assert page.evaluate("getComputedStyle(document.querySelector('bdi')).unicodeBidi") == "isolate"


def test_dark_mode_by_wish_and_by_button(visit: Any, run_folder: Path) -> None:
    visited = visit(run_folder / "report.html", color_scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    assert visited.page.evaluate(shade) == "rgb(20, 24, 29)"
    check_accessible(visited, "color-contrast")
    visited.page.click("#theme")
    assert visited.page.evaluate(shade) == "rgb(255, 255, 255)"
    check_quiet(visited)


def test_a_phone_does_not_scroll_sideways(visit: Any, run_folder: Path, comparison: Path) -> None:
    for file in (run_folder / "report.html", comparison):
        visited = visit(file, **PHONE)
        assert width(visited) == 390
        check_quiet(visited)


def test_nothing_serious_for_axe(opened: Any, compared: Any) -> None:
    check_accessible(opened)
    check_accessible(compared)


def test_sorting_sorts_and_filters_filter(compared: Any) -> None:
    page = compared.page
    column = "#cells tbody td:nth-child(7)"
    for direction in ("ascending", "descending"):
        page.click("#cells thead th:nth-child(7) button")
        shown = [t.split(" ")[0] for t in page.locator(column).all_inner_texts()]
        assert shown[-1] == "none"
        values = [float(t) for t in shown[:-1]]
        assert values == sorted(values, reverse=direction == "descending")
        assert page.get_attribute("#cells thead th:nth-child(7)", "aria-sort") == direction
    assert page.locator("#cells tbody tr").count() == 11
    page.select_option("#cell-dataset", "texas")
    assert page.locator("#cells tbody tr").count() == 3
    page.fill("#cell-search", "gcn")
    assert page.locator("#cells tbody tr").count() == 1
    page.fill("#cell-search", "")
    page.select_option("#cell-dataset", "")


def test_both_protocols_ranks_and_cost(compared: Any) -> None:
    page = compared.page
    assert page.locator("#pivot tbody tr").count() == 5
    assert page.locator("#pivot strong").first.inner_text().startswith("75.00")
    assert page.is_visible("[data-ranking=test_mean]")
    page.select_option("#protocol", "oracle")
    assert page.locator("#pivot strong").first.inner_text().startswith("78.00")
    assert page.is_visible("[data-ranking=oracle_mean]")
    assert not page.is_visible("[data-ranking=test_mean]")
    assert "out of memory" in page.locator("#cells").inner_text()
    assert page.get_attribute("#by-time", "data-cells") == "3"
    assert compared.marks("by-memory") == 3
    assert page.evaluate("document.querySelectorAll('main i').length") == 0


def test_the_diagram_names_every_model(visit: Any, tmp_path: Path) -> None:
    cells = [
        {"model": m, "dataset": d, "splits": [{"split": 0, "test": 50.0 + i}]}
        for i, m in enumerate(("a", "b", "c"))
        for d in ("x", "y", "z")
    ]
    (tmp_path / "cells.json").write_text(json.dumps(cells), "utf-8")
    visited = visit(write_comparison_page([tmp_path / "cells.json"], tmp_path / "c.html"))
    names = visited.page.locator("#diagram text.model").all_text_contents()
    assert [name.split()[0] for name in names[:2]] == ["c", "b"]
    assert names[2] == "3.00  a"
    check_quiet(visited)


def test_cora_opens_quietly(visit: Any, cora_folder: Path) -> None:
    visited = visit(cora_folder / "report.html")
    assert "sample of 700" in visited.page.locator("#player-note").inner_text()
    assert visited.marks("panel-points") == 700
    assert visited.page.locator("#confusion tbody tr").count() == 7
    visited.page.fill("#node-search", "1708")
    assert visited.page.locator("#node-table tbody tr").first.inner_text().startswith("1708")
    check_quiet(visited)


def test_timings_are_reported(visit: Any, run_folder: Path, capsys: Any) -> None:
    visited = visit(run_folder / "report.html")
    paint = visited.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]")
    timing = "const a = performance.now(); {}; return performance.now() - a"
    took = {
        name: visited.page.evaluate(f"() => {{ {timing.replace('{}', code)} }}")
        for name, code in INTERACTIONS.items()
    }
    with capsys.disabled():
        said = ", ".join(f"{name} {value:.0f} ms" for name, value in took.items())
        print(f"\nfirst paint {paint['startTime']:.0f} ms; {said}")
    assert paint["startTime"] > 0
    assert all(value >= 0 for value in took.values())


def test_the_session_was_quiet(opened: Any, compared: Any) -> None:
    check_quiet(opened)
    check_quiet(compared)
