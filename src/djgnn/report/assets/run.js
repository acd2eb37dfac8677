"use strict";
// The overview of one run: curves, branches, classes, graph card.

const PART_NAMES = { test: "test nodes", validation: "validation nodes", train: "training nodes" };
const LOSSES = [
  ["loss", "total", "solid"], ["cross_entropy", "cross-entropy", "dash"],
  ["pump_loss", "pump", "dot"], ["trace_ratio", "trace ratio", "dashdot"],
  ["orthogonality", "orthogonality", "longdash"], ["validation_loss", "validation cross-entropy", "solid"],
];
const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const metricName = () => (DATA.headline.metric === "roc_auc" ? "ROC-AUC" : "accuracy");

function curves(rows, x) {
  return rows.map(([y, name, dash], i) => ({
    type: "scatter", mode: "lines", x, y, name: plain(name), line: { color: colour(i), dash, width: 2 },
    hovertemplate: `%{y:.4f}<extra>${plain(name)}, epoch %{x}</extra>`,
  }));
}

function keptLine() {
  const epoch = DATA.headline.result.epoch;
  return [{ type: "line", x0: epoch, x1: epoch, yref: "paper", y0: 0, y1: 1, line: { width: 1, dash: "dash" } }];
}

views.push(function learning() {
  const h = DATA.history, x = h.epoch, last = x.length - 1;
  const rows = LOSSES.filter(([key]) => h[key]).map(([key, name, dash]) => [h[key], name, dash]);
  plot("losses", `Losses over ${x.length} epochs; the total ends at ${fixed(h.loss[last], 3)}.`, {
    traces: curves(rows, x), layout: { xaxis: { title: "epoch" }, yaxis: { title: "loss" }, shapes: keptLine() },
  });
  plot("scores", `Training and validation ${metricName()} over ${x.length} epochs; the kept epoch is ${DATA.headline.result.epoch} with ${percent(DATA.headline.result.validation)} on validation.`, {
    traces: curves([[h.train, "training", "solid"], [h.validation, "validation", "dash"]], x),
    layout: { xaxis: { title: "epoch" }, yaxis: { title: `${metricName()} (%)` }, shapes: keptLine() },
  });
});

const branchName = (name) => name.replace(/^jump(\d+)$/, "J$1");

views.push(function branches() {
  const { names, values, epochs } = DATA.alpha;
  const said = names.map((name, k) => `${branchName(name)} ${fixed(values[k], 3)}`).join(", ");
  plot("alpha", `Mixing weights: ${said}.`, {
    traces: [{
      type: "bar", x: names.map(branchName), y: values, marker: { color: names.map((n) => (n.startsWith("jump") ? COLOURS[0] : n === "homophilic" ? COLOURS[1] : COLOURS[2])) },
      text: values.map((v) => v.toFixed(2)), textposition: "outside", cliponaxis: false, hovertemplate: "%{x}: %{y:.4f}<extra></extra>",
    }],
    layout: { xaxis: { title: "" }, yaxis: { title: "α", rangemode: "tozero" }, showlegend: false, margin: { l: 50, r: 10, t: 22, b: 42 } },
  });
  if (!epochs) {
    byId("alpha-epochs").replaceWith(el("p", { class: "note", text: "Not recorded: train with --record to see the weights over epochs." }));
    return;
  }
  const flat = unpack(epochs), [length, width] = epochs.shape;
  const column = (k) => Array.from({ length }, (_, e) => flat[e * width + k]);
  plot("alpha-epochs", `Mixing weights of ${width} branches over ${length} epochs.`, {
    traces: names.map((name, k) => ({
      type: "scatter", mode: "lines", x: DATA.alpha.seen, y: column(k), name: branchName(name),
      line: { color: colour(k), dash: dashes[Math.floor(k / COLOURS.length + k) % dashes.length], width: 2 }, hovertemplate: "%{y:.4f}<extra>" + branchName(name) + ", epoch %{x}</extra>",
    })),
    layout: { xaxis: { title: "epoch" }, yaxis: { title: "α", rangemode: "tozero" }, shapes: keptLine() },
  });
});

function drawConfusion(found) {
  const classes = DATA.classes, made = el("table", { class: "heat" });
  const top = el("tr", {}, el("th", { scope: "col", text: "true \\ predicted" }));
  for (const name of classes) top.append(el("th", { scope: "col", class: "number" }, outside(name)));
  top.append(el("th", { scope: "col", class: "number", text: "nodes" }));
  const body = el("tbody");
  found.confusion.forEach((counts, c) => {
    const total = counts.reduce((a, b) => a + b, 0);
    const row = el("tr", {}, el("th", { scope: "row" }, outside(classes[c])));
    counts.forEach((count) => row.append(heatCell(total ? count / total : 0, whole(count))));
    row.append(el("td", { class: "number", text: whole(total) }));
    body.append(row);
  });
  made.append(el("thead", {}, top), body);
  byId("confusion").replaceChildren(made);
}

function drawReliability(found) {
  const bins = found.reliability.bins.map((b) => ({ count: b.count, accuracy: 100 * b.accuracy, confidence: 100 * b.confidence, middle: 50 * (b.low + b.high), width: 92 * (b.high - b.low) }));
  return {
    traces: [
      { type: "bar", x: bins.map((b) => b.middle), y: bins.map((b) => b.accuracy), width: bins.map((b) => b.width), marker: { color: COLOURS[0] }, name: "right, of those in the bin",
        customdata: bins.map((b) => [b.count, b.confidence]), hovertemplate: "%{customdata[0]} nodes, mean confidence %{customdata[1]:.1f}%, right %{y:.1f}%<extra></extra>" },
      { type: "scatter", mode: "markers", x: bins.map((b) => b.confidence), y: bins.map((b) => b.accuracy), name: "mean confidence",
        marker: { color: COLOURS[1], size: 9, line: { width: 1, color: "#7a5200" }, symbol: "diamond" }, hoverinfo: "skip" },
    ],
    layout: {
      xaxis: { title: "confidence (%)", range: [0, 100] }, yaxis: { title: "right (%)", range: [0, 102] }, bargap: 0.05,
      shapes: [{ type: "line", x0: 0, y0: 0, x1: 100, y1: 100, line: { dash: "dash", width: 1 } }],
    },
  };
}

views.push(function classesView() {
  const select = byId("part"), parts = ["test", "validation", "train"].filter((p) => DATA.evaluation[p]);
  for (const p of parts) select.append(el("option", { value: p, text: `${PART_NAMES[p]} (${whole(DATA.evaluation[p].nodes)})` }));
  const draw = () => {
    const found = DATA.evaluation[select.value];
    if (!found) return;
    drawConfusion(found);
    const rows = found.classes.map((s, c) => [outside(DATA.classes[c]), ...["precision", "recall", "f1"].map((k) => ({ number: percent(s[k], 1) })), { number: whole(s.support) }]);
    byId("class-scores").replaceChildren(table(["class", { number: "precision" }, { number: "recall" }, { number: "F1" }, { number: "nodes" }], rows, { rowHeads: true }));
    const label = `Reliability on the ${PART_NAMES[select.value]}: expected calibration error ${fixed(100 * found.reliability.error, 2)} points.`;
    plot("reliability", label, drawReliability(found));
    byId("ece").textContent = label;
  };
  byId("reliability").after(el("p", { class: "note", id: "ece" }));
  select.addEventListener("change", draw);
  draw();
});

views.push(function facts() {
  byId("graph-card").replaceChildren(table([], DATA.graph.rows.map(([name, value]) => [outside(name), outside(value)]), { rowHeads: true }));
  const versions = Object.entries(DATA.headline.versions).map(([k, v]) => [k, outside(v)]);
  byId("versions").append(el("h3", { text: "Versions" }), table([], versions, { rowHeads: true }));
  const config = [];
  for (const [section, values] of Object.entries(DATA.headline.config)) {
    if (typeof values === "object" && values !== null) for (const [k, v] of Object.entries(values)) config.push([`${section}: ${k}`, outside(String(v))]);
  }
  byId("config").append(el("h3", { text: "Configuration" }), table([], config, { rowHeads: true }));
});
