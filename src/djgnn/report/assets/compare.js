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
  sortHeads(byId("cells"), made, COLUMNS, compare, drawCells);
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
  for (const diagram of byId("diagram").children) diagram.hidden = diagram.dataset.ranking !== mean;
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
