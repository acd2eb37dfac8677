"use strict";
// What to trust; and of the theory: curves, branches, graph card.

const PART_NAMES = { test: "test nodes", validation: DATA.headline.cross_fitted ? "labelled nodes" : "validation nodes", train: "training nodes" };
const PART_NOTES = {
  test: "The test nodes were never looked at before these figures were made.",
  validation: DATA.headline.cross_fitted ? "Every labelled node, predicted by the members of the mixture that had not learned from its label." : "The validation nodes decided when to stop and how much each expert weighs, so their figures are a little too good.",
  train: "The model learned from these labels: its figures here say nothing about other nodes.",
};
const LOSSES = [
  ["loss", "total", "solid"], ["cross_entropy", "cross-entropy", "dash"],
  ["pump_loss", "pump", "dot"], ["trace_ratio", "trace ratio", "dashdot"],
  ["orthogonality", "orthogonality", "longdash"], ["validation_loss", "validation cross-entropy", "solid"],
];
const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const metricName = () => DATA.headline.metric;

function curves(rows, x) {
  return rows.map(([y, name, dash], i) => ({
    type: "scatter", mode: "lines", x, y, name: plain(name), line: { color: colour(i), dash, width: 2 },
    hovertemplate: `%{y:.4f}<extra>${plain(name)}, epoch %{x}</extra>`,
  }));
}

function keptLine(epoch = DATA.shown.epoch) {
  return [{ type: "line", x0: epoch, x1: epoch, yref: "paper", y0: 0, y1: 1, line: { width: 1, dash: "dash" } }];
}

// the columns of the history, of one expert or of the only network
function historyOf(expert) {
  const h = DATA.history, rows = h.expert.map((name, i) => i).filter((i) => !expert || h.expert[i] === expert);
  return Object.fromEntries(Object.entries(h).map(([key, values]) => [key, rows.map((i) => values[i])]));
}

function drawLearning(expert) {
  const h = historyOf(expert && expert.name), x = h.epoch, kept = expert || DATA.headline.result;
  const rows = LOSSES.filter(([key]) => h[key] && h[key].some((v) => v !== null)).map(([key, name, dash]) => [h[key], name, dash]);
  plot("losses", `Losses over ${x.length} epochs; the total ends at ${fixed(h.loss[x.length - 1], 3)}.`, {
    traces: curves(rows, x), layout: { xaxis: { title: "epoch" }, yaxis: { title: "loss" }, shapes: keptLine(kept.epoch) },
  });
  plot("scores", `Training and validation ${metricName()} over ${x.length} epochs; the kept epoch is ${kept.epoch} with ${percent(kept.validation)} on validation.`, {
    traces: curves([[h.train, "training", "solid"], [h.validation, "validation", "dash"]], x),
    layout: { xaxis: { title: "epoch" }, yaxis: { title: `${metricName()} (%)` }, shapes: keptLine(kept.epoch) },
  });
}

const dashOf = (k) => dashes[Math.floor(k / COLOURS.length + k) % dashes.length];

// one line per member, in the colour of its kind, with a mark at the epoch that it kept
function drawAllExperts() {
  const kinds = DATA.experts.map((expert) => expert.name);
  const draw = (id, key, title, digits) => plot(id, `Curves of the ${title} of ${kinds.length} experts over their epochs.`, {
    traces: DATA.members.flatMap((expert) => {
      const k = kinds.indexOf(expert.kind), first = DATA.members.find((other) => other.kind === expert.kind) === expert;
      const h = historyOf(expert.name), line = { color: colour(k), dash: dashOf(k), width: 1.6 };
      const hovertemplate = `%{y:.${digits}f}<extra>${plain(expert.name)}, after %{x} epochs</extra>`;
      return [
        { type: "scatter", mode: "lines", x: h.epoch.map((e) => e + 1), y: h[key], name: plain(expert.kind), legendgroup: expert.kind, showlegend: first, line, hovertemplate },
        { type: "scatter", mode: "markers", x: [expert.epoch + 1], y: [h[key][expert.epoch]], legendgroup: expert.kind, showlegend: false,
          marker: { color: colour(k), size: 9, symbol: PLOTLY_SHAPES[k % 8], line: { width: 1, color: UNKNOWN } }, hovertemplate },
      ];
    }),
    layout: { xaxis: { title: "epochs done (logarithmic)", type: "log", dtick: 1 }, yaxis: { title } },
  });
  draw("losses", "validation_loss", "validation cross-entropy", 3);
  draw("scores", "validation", `validation ${metricName()} (%)`, 1);
}

theory.push(function learning() {
  if (!DATA.experts) return drawLearning(null);
  const select = byId("learner"), one = [byId("losses-caption").textContent, byId("scores-caption").textContent];
  const all = ["Loss on the validation nodes per epoch, expert by expert; the mark is the epoch that was kept.", "Score on the validation nodes per epoch, expert by expert."];
  select.append(el("option", { value: -1, text: "all" }), ...DATA.members.map((expert, k) => el("option", { value: k, text: expert.name })));
  const draw = () => {
    const expert = DATA.members[select.value];
    [byId("losses-caption").textContent, byId("scores-caption").textContent] = expert ? one : all;
    if (expert) drawLearning(expert);
    else drawAllExperts();
  };
  select.addEventListener("change", draw);
  draw();
});

const branchName = (name) => name.replace(/^jump(\d+)$/, "J$1");

// a jump that was dropped has no weight; the jumps come first in alpha
const inUse = (k) => DATA.alpha.values[k] > 0;

theory.push(function branches() {
  if (DATA.experts && !DATA.jumps) return;
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
      line: { color: colour(k), dash: dashOf(k), width: 2 }, hovertemplate: "%{y:.4f}<extra>" + branchName(name) + ", epoch %{x}</extra>",
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

// how many nodes without a label are as sure, if the page has them all
function unlabelledBetween(low, high) {
  if (DATA.nodes.shown) return null;
  const probability = unpack(DATA.nodes.probability), labels = unpack(DATA.nodes.labels);
  return probability.reduce((sum, p, i) => sum + (labels[i] === 0 && p > low && (p <= high || high === 1)), 0);
}

function confidenceTable(found) {
  const rest = DATA.headline.unlabelled && !DATA.nodes.shown;
  const rows = found.reliability.bins.map((b) => [`${Math.round(100 * b.low)} to ${Math.round(100 * b.high)}%`, { number: whole(b.count) }, { number: percent(100 * b.accuracy, 0) },
    ...(rest ? [{ number: whole(unlabelledBetween(b.low, b.high)) }] : [])]);
  return table(["probability", { number: "judged" }, { number: "right" }, ...(rest ? [{ number: "unlabelled" }] : [])], rows, { rowHeads: true, class: "wide" });
}

views.push(function classesView() {
  const select = byId("part"), parts = ["test", "validation", "train"].filter((p) => DATA.evaluation[p]);
  if (!parts.length) return;
  byId("part-choice").hidden = parts.length === 1;
  for (const p of parts) select.append(el("option", { value: p, text: `${PART_NAMES[p]} (${whole(DATA.evaluation[p].nodes)})` }));
  const draw = () => {
    const found = DATA.evaluation[select.value];
    byId("part-note").textContent = `${whole(found.nodes)} ${PART_NAMES[select.value]}. ${PART_NOTES[select.value]}`;
    drawConfusion(found);
    const rows = found.classes.map((s, c) => [outside(DATA.classes[c]), ...["precision", "recall", "f1"].map((k) => ({ number: percent(s[k], 1) })), { number: whole(s.support) }]);
    byId("class-scores").replaceChildren(table(["class", { number: "precision" }, { number: "recall" }, { number: "F1" }, { number: "nodes" }], rows, { rowHeads: true, class: "wide" }));
    const error = fixed(100 * found.reliability.error, 1);
    plot("reliability", `Reliability on the ${PART_NAMES[select.value]}: probabilities are ${error} points off on average.`, drawReliability(found));
    byId("ece").textContent = `Probabilities are ${error} points off on average (expected calibration error).`;
    byId("confidence").replaceChildren(confidenceTable(found));
  };
  select.addEventListener("change", draw);
  draw();
});

theory.push(function graphCard() {
  if (DATA.graph) byId("graph-card").replaceChildren(table([], DATA.graph.rows.map(([name, value]) => [outside(name), outside(value)]), { rowHeads: true }));
});

views.push(function facts() {
  const versions = Object.entries(DATA.headline.versions).map(([k, v]) => [k, outside(v)]);
  byId("versions").append(el("h3", { text: "Versions" }), table([], versions, { rowHeads: true }));
  const config = [];
  for (const [section, values] of Object.entries(DATA.headline.config)) {
    if (typeof values === "object" && values !== null) for (const [k, v] of Object.entries(values)) config.push([`${section}: ${k}`, outside(Array.isArray(v) ? v.join(", ") : String(v))]);
  }
  byId("config").append(el("h3", { text: "Configuration" }), table([], config, { rowHeads: true }));
});
