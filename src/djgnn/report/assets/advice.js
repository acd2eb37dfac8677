"use strict";
// What to do next, and what the answers rely on.

const EXPERT_WORDS = {
  shares: "how common each class is", propagation: "labels passed along the edges", boosting: "boosted trees on features, neighbours and place in the graph",
  forest: "a forest of random trees on features, neighbours and place in the graph", profile: "features, degrees and labels of neighbours",
  features: "the node's own features", given: "neighbours along the edges", transposed: "neighbours against the edges", symmetric: "neighbours in both directions",
  hops: "neighbourhoods of up to three steps", mix: "neighbourhoods of up to two steps, twice", diffusion: "diffusion over ten steps", rows: "whom the node links to", columns: "who links to the node",
  deep: "a deep network over the edges", jumps: "nodes in similar places (jumps)", joint: "jumps, neighbours and links at once (the paper's network)",
};

// a node that the card names, as a button where the page has it
function namedNode(name) {
  const row = rowNamed(name);
  return row === undefined ? outside(name) : nodeButton(idOf(row), true);
}

views.push(function suspectsView() {
  if (!DATA.suspects) return;
  const rows = DATA.suspects.map((s) => [namedNode(s.node), outside(s.label), { number: percent(100 * s.probability, 1) }, outside(s.prediction), outside([s.looks_wrong ? "looks wrong" : "", s.reasons || ""].filter(Boolean).join(": "))]);
  byId("suspects").replaceChildren(table(["node", "label", { number: "its probability" }, "more likely", "why"], rows, { class: "wide words" }));
});

views.push(function labelNextView() {
  if (!DATA.label_next) return;
  const rows = DATA.label_next.map((s) => [namedNode(s.node), outside(s.prediction), { number: percent(100 * s.probability, 1) }, { number: whole(s.neighbours) }]);
  byId("label-next").replaceChildren(table(["node", "now predicted", { number: "probability" }, { number: "neighbours" }], rows, { class: "wide" }));
});

function drawCurve(name, c) {
  const { recall, precision, threshold } = DATA.pr_curve[name], hundred = (values) => values.map((v) => 100 * v);
  plot("curve", `Precision against recall of the class ${name} over ${recall.length} thresholds.`, {
    traces: [{ type: "scatter", mode: "lines+markers", x: hundred(recall), y: hundred(precision), customdata: threshold, line: { color: colour(c), width: 2 }, marker: { size: 5 },
      hovertemplate: "from %{customdata:.4f} on: precision %{y:.1f}%, recall %{x:.1f}%<extra></extra>" }],
    layout: { xaxis: { title: "recall: found (%)", range: [0, 102] }, yaxis: { title: "precision: right (%)", range: [0, 102] }, showlegend: false },
  });
}

views.push(function curvesView() {
  if (!DATA.thresholds || !DATA.pr_curve) return;
  const select = byId("curve-class"), names = DATA.classes.filter((name) => DATA.pr_curve[name] && DATA.thresholds[name]), more = DATA.headline.unlabelled > 0;
  names.forEach((name) => select.append(el("option", { value: name, text: name })));
  const draw = () => {
    const name = select.value, rows = DATA.thresholds[name];
    drawCurve(name, DATA.classes.indexOf(name));
    const head = ["precision wanted", { number: "probability from" }, { number: "recall" }, ...(more ? [{ number: "unlabelled above it" }] : [])];
    byId("thresholds").replaceChildren(rows.length
      ? table(head, rows.map((t) => [percent(100 * t.precision, 0), ...[fixed(t.threshold, 6), percent(100 * t.recall, 1), ...(more ? [whole(t.unlabelled)] : [])].map((number) => ({ number }))]), { rowHeads: true, class: "wide" })
      : el("p", { text: "No threshold makes this class precise enough." }));
  };
  select.addEventListener("change", draw);
  if (names.length) draw();
});

views.push(function importanceView() {
  if (!DATA.importance) return;
  const most = Math.max(...DATA.importance.map((g) => g.drop || 0), 1e-9), place = byId("importance");
  for (const g of [...DATA.importance].sort((a, b) => (b.drop || 0) - (a.drop || 0))) {
    const error = g.error === null || g.error === undefined ? "" : ` ± ${g.error.toFixed(1)}`;
    place.append(...bar(outside(g.group), Math.max(0, g.drop || 0) / most, `${fixed(g.drop, 1)}${error}`, COLOURS[0]));
  }
  if (DATA.verdict && DATA.verdict.at_chance) place.before(el("p", { class: "note", text: "The score is at chance, so these differences mean little." }));
  else if (!DATA.importance.some((g) => g.drop > 2 * g.error)) place.before(el("p", { class: "note", text: "No column matters: shuffling one lowers the score by no more than chance." }));
});

views.push(function expertsView() {
  if (!DATA.experts) return;
  const found = [...DATA.experts].sort((a, b) => b.weight - a.weight), result = DATA.headline.result;
  const share = (value) => {
    const track = el("div", { class: "bars cell" });
    track.append(...bar("", value, fixed(value, 2), COLOURS[0]).slice(1));
    return track;
  };
  const used = found.filter((e) => e.weight >= 0.0005), idle = found.filter((e) => e.weight < 0.0005);
  const rows = used.map((e) => [el("span", {}, el("strong", { text: e.name }), EXPERT_WORDS[e.name] ? `: ${EXPERT_WORDS[e.name]}` : ""), share(e.weight), share(DATA.work[e.name] || 0),
    { number: percent(e.validation, 1) }, { number: fixed(e.seconds, 1) }]);
  rows.push([el("strong", { text: "all together" }), "1.00", "1.00", { number: percent(result.validation, 1) }, { number: fixed(result.seconds, 1) }]);
  byId("experts").replaceChildren(table(["expert", "weight", "share of the answers", { number: `${metricName()} alone` }, { number: "seconds" }], rows, { class: "wide experts" }));
  if (idle.length) byId("experts").append(el("p", { class: "note", text: `Tried and left without weight: ${idle.map((e) => `${e.name} (${percent(e.validation, 1)} alone)`).join(", ")}.` }));
});

views.push(function setSizes() {
  const sets = DATA.nodes.sets, place = byId("set-sizes");
  if (!place || !sets) return;
  const counts = new Map();
  for (const size of sets.map((set) => classesOf(set).length)) counts.set(size, (counts.get(size) || 0) + 1);
  for (const size of [...counts.keys()].sort((a, b) => a - b)) {
    const count = counts.get(size);
    place.append(...bar(el("span", { text: size === 0 ? "no class" : size === 1 ? "one class" : `${size} classes` }), count / sets.length, `${whole(count)} nodes`, COLOURS[0]));
  }
});
