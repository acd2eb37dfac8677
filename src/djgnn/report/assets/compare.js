"use strict";
// Several runs or a benchmark: table, grid, ranks, cost.

const COLUMNS = [
  { key: "model", name: "model" }, { key: "dataset", name: "data set" }, { key: "preset", name: "preset" }, { key: "metric", name: "metric" },
  { key: "splits", name: "splits", digits: 0 }, { key: "validation_mean", name: "validation", digits: 2 }, { key: "test_mean", name: "test", digits: 2, spread: "test_std" },
  { key: "oracle_mean", name: "oracle", digits: 2, spread: "oracle_std" }, { key: "seconds", name: "time (s)", digits: 1 }, { key: "peak_memory_mib", name: "memory (MiB)", digits: 0 }, { key: "status", name: "status" },
];
const compare = { sort: "test_mean", up: false };
const models = [...new Set(DATA.cells.map((c) => c.model))], sets = [...new Set(DATA.cells.map((c) => c.dataset))];

const figure = (cell, column) => {
  const value = cell[column.key];
  if (value === null || value === undefined) return "none";
  const spread = column.spread && cell[column.spread] !== null ? ` ± ${cell[column.spread].toFixed(2)}` : "";
  return (column.digits === 0 ? whole(Math.round(value)) : value.toFixed(column.digits)) + spread;
};

// missing figures come last whichever way the column is sorted
function sorted(cells) {
  const { sort, up } = compare, sign = up ? 1 : -1;
  return [...cells].sort((a, b) => {
    const x = a[sort], y = b[sort];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
}

function drawCells() {
  const wanted = byId("cell-search").value.trim().toLowerCase(), set = byId("cell-dataset").value, model = byId("cell-model").value;
  const shown = sorted(DATA.cells.filter((c) => (!set || c.dataset === set) && (!model || c.model === model)
    && (!wanted || [c.model, c.dataset, c.preset, c.status].some((v) => v.toLowerCase().includes(wanted)))));
  const rows = shown.map((c) => COLUMNS.map((col) => (col.digits === undefined ? (col.key === "status" && c.status !== "done" ? el("span", { class: "tag" }, outside(c[col.key])) : outside(c[col.key])) : { number: figure(c, col) })));
  const made = table(COLUMNS.map((c) => c.name), rows, { class: "wide" });
  [...made.tHead.rows[0].cells].forEach((th, j) => {
    const column = COLUMNS[j], chosen = compare.sort === column.key;
    const arrow = chosen ? (compare.up ? " ▲" : " ▼") : "";
    th.replaceChildren(el("button", { type: "button", text: column.name + arrow, onclick: () => {
      compare.up = chosen ? !compare.up : column.digits === undefined;
      compare.sort = column.key;
      drawCells();
      byId("cells").querySelectorAll("thead button")[j].focus();
    } }));
    th.setAttribute("aria-sort", chosen ? (compare.up ? "ascending" : "descending") : "none");
    th.className = column.digits === undefined ? "" : "number";
  });
  byId("cells").replaceChildren(made);
  byId("cell-count").textContent = `${whole(shown.length)} of ${whole(DATA.cells.length)} cells.`;
}

function drawPivot() {
  const kind = byId("protocol").value, mean = `${kind}_mean`, std = `${kind}_std`;
  const of = (m, d) => DATA.cells.find((c) => c.model === m && c.dataset === d);
  const best = new Map(sets.map((d) => [d, Math.max(...models.map((m) => of(m, d)?.[mean] ?? -Infinity))]));
  const rows = models.map((m) => [outside(m), ...sets.map((d) => {
    const cell = of(m, d);
    if (!cell) return { number: "" };
    const text = figure(cell, { key: mean, digits: 2, spread: std });
    return { number: cell[mean] !== null && cell[mean] === best.get(d) ? el("strong", { text }) : cell[mean] === null && cell.status !== "done" ? cell.status : text };
  })]);
  byId("pivot").replaceChildren(table(["model", ...sets.map((d) => ({ number: outside(d) }))], rows, { rowHeads: true }));
  drawDiagram(DATA.ranking[mean]);
}

// ranks on a line, names below on both sides, bars over models that are not told apart
function drawDiagram(found) {
  const place = byId("diagram");
  if (!found) {
    place.replaceChildren(el("p", { class: "note", text: "Needs two models or more with figures on the same two data sets or more." }));
    return;
  }
  const { models: order, ranks, cliques, critical_difference: width } = found, k = order.length;
  const half = Math.ceil(k / 2), w = 860, left = 230, right = w - 230, top = 64 + 14 * cliques.length, h = top + 34 + 24 * half;
  const x = (rank) => left + ((rank - 1) / (k - 1)) * (right - left);
  const root = svg("svg", { class: "cd", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Average ranks: ${order.map((m, i) => `${m} ${ranks[i].toFixed(2)}`).join(", ")}; critical difference ${width.toFixed(2)}.` });
  root.append(svg("line", { class: "axis", x1: left, x2: right, y1: top, y2: top }));
  for (let r = 1; r <= k; r++) root.append(svg("line", { class: "axis", x1: x(r), x2: x(r), y1: top - 6, y2: top }), svg("text", { x: x(r), y: top + 16, "text-anchor": "middle", "font-size": 11, text: String(r) }));
  const end = Math.min(x(1 + width), w - 10);
  root.append(svg("line", { class: "axis", x1: left, x2: end, y1: 26, y2: 26, "stroke-width": 3 }), svg("text", { x: left, y: 18, text: `critical difference ${width.toFixed(2)}, ${found.sets.length} data sets, level ${found.alpha}` }));
  cliques.forEach(([a, b], i) => root.append(svg("line", { class: "clique", x1: x(ranks[a]), x2: x(ranks[b]), y1: 44 + 14 * i, y2: 44 + 14 * i })));
  order.forEach((name, i) => {
    const onLeft = i < half, row = onLeft ? i : k - 1 - i, y = top + 40 + 24 * row, edge = onLeft ? left - 14 : right + 14;
    root.append(svg("path", { class: "stem", d: `M${x(ranks[i])} ${top}V${y}H${edge}` }));
    const short = name.length > 26 ? name.slice(0, 25) + "…" : name;
    root.append(svg("text", { class: "model", x: edge + (onLeft ? -5 : 5), y: y + 4, "text-anchor": onLeft ? "end" : "start", text: onLeft ? `${short}  ${ranks[i].toFixed(2)}` : `${ranks[i].toFixed(2)}  ${short}` }));
  });
  place.replaceChildren(root);
}

function drawCost() {
  const set = byId("cost-dataset").value;
  for (const [id, key, title] of [["by-time", "seconds", "seconds per split"], ["by-memory", "peak_memory_mib", "peak memory (MiB)"]]) {
    const cells = DATA.cells.filter((c) => c.dataset === set && c.test_mean !== null && c[key] !== null);
    byId(id).closest("figure").hidden = !cells.length; // no axes without anything on them
    byId("no-cost").hidden = !["by-time", "by-memory"].every((name) => byId(name).closest("figure").hidden);
    if (!cells.length) continue;
    const traces = cells.map((c) => {
      const i = models.indexOf(c.model);
      return { type: "scatter", mode: "markers", name: plain(c.model), x: [key === "seconds" ? c.seconds / Math.max(c.splits, 1) : c[key]], y: [c.test_mean],
        error_y: c.test_std === null ? undefined : { type: "data", array: [c.test_std], thickness: 1.2 }, marker: { color: colour(i), symbol: PLOTLY_SHAPES[i % 8], size: 11 },
        hovertemplate: `%{y:.2f}%, %{x:.4g}<extra>${plain(c.model)}</extra>` };
    });
    byId(id).setAttribute("data-cells", cells.length);
    plot(id, `Test score against ${title} of ${cells.length} models on ${set}.`, { traces, layout: { xaxis: { title, type: "log" }, yaxis: { title: "test (%)" }, showlegend: true } });
  }
}

views.push(function comparison() {
  const fill = (id, values, any) => byId(id).append(...(any ? [el("option", { value: "", text: "any" })] : []), ...values.map((v) => el("option", { value: v, text: v })));
  fill("cell-dataset", sets, true);
  fill("cell-model", models, true);
  fill("cost-dataset", sets, false);
  for (const id of ["cell-search", "cell-dataset", "cell-model"]) byId(id).addEventListener("input", drawCells);
  byId("protocol").addEventListener("change", drawPivot);
  byId("cost-dataset").addEventListener("change", drawCost);
  drawCells();
  drawPivot();
  drawCost();
});
