"use strict";
// The node table: search, filters, and the card of one node.

const PARTS = ["", "train", "validation", "test"];
const PAGE = 200;
const COEFFICIENT = "exp(-s d) of the distance d in U, with the scale s, before the filter is normalised; djgnn explain prints the weight after it.";
const nodes = { chosen: -1, listeners: [] };

// rows are those of the table in the page; ids are nodes of the graph
function prepareNodes() {
  const t = DATA.nodes;
  nodes.ids = t.shown ? unpack(t.shown) : null;
  nodes.rows = t.shown ? nodes.ids.length : t.count;
  nodes.rowOf = new Map();
  if (nodes.ids) nodes.ids.forEach((id, row) => nodes.rowOf.set(id, row));
  nodes.lower = t.names ? t.names.map((name) => name.toLowerCase()) : null;
}
const idOf = (row) => (nodes.ids ? nodes.ids[row] : row);
const rowOf = (id) => (nodes.ids ? nodes.rowOf.get(id) : id);
const labelOf = (id) => unpack(DATA.nodes.labels)[id] - 1;
const predictedOf = (id) => unpack(DATA.nodes.predicted)[id];
const partOf = (id) => PARTS[unpack(DATA.nodes.part)[id]];
function nameOf(id) {
  const row = rowOf(id);
  return DATA.nodes.names && row !== undefined ? DATA.nodes.names[row] : String(id);
}

// rows whose name holds the text; a name equal to it, then names that begin with it, come first
function searchNodes(text, most) {
  const wanted = text.trim().toLowerCase(), ranked = [[], [], []];
  for (let row = 0; row < nodes.rows; row++) {
    const name = nodes.lower ? nodes.lower[row] : String(idOf(row));
    const at = wanted ? name.indexOf(wanted) : 0;
    if (at < 0) continue;
    ranked[wanted && name === wanted ? 0 : wanted && at === 0 ? 1 : 2].push(row);
  }
  return ranked.flat().slice(0, most);
}

function choose(id) {
  nodes.chosen = id;
  for (const listener of nodes.listeners) listener(id);
}

function nodeButton(id) {
  const known = rowOf(id) !== undefined;
  return known ? el("button", { type: "button", class: "link", onclick: () => choose(id) }, outside(nameOf(id))) : outside(nameOf(id));
}

const agreeText = (id) => {
  const label = labelOf(id);
  return label < 0 ? "label unknown" : label === predictedOf(id) ? "right" : "wrong";
};

function filteredRows() {
  const part = byId("node-part").value, outcome = byId("node-outcome").value, order = byId("node-order").value;
  let rows = searchNodes(byId("node-search").value, nodes.rows).filter((row) => {
    const id = idOf(row);
    return (!part || partOf(id) === part) && (!outcome || agreeText(id) === outcome);
  });
  if (order !== "table") {
    const margin = unpack(DATA.nodes.margin), sign = order === "unsure" ? 1 : -1;
    rows = rows.sort((a, b) => sign * (margin[a] - margin[b]) || a - b);
  }
  return rows;
}

function drawNodeTable() {
  const rows = filteredRows(), t = DATA.nodes;
  const probability = unpack(t.probability), margin = unpack(t.margin);
  const body = rows.slice(0, PAGE).map((row) => {
    const id = idOf(row), label = labelOf(id);
    const wrong = agreeText(id) === "wrong";
    return [nodeButton(id), label < 0 ? "unknown" : outside(className(label)), wrong ? el("span", { class: "tag" }, outside(className(predictedOf(id))), " ✗") : outside(className(predictedOf(id))),
      { number: fixed(probability[row], 3) }, { number: fixed(margin[row], 3) }, partOf(id) || "none"];
  });
  const made = table(["node", "label", "prediction", { number: "probability" }, { number: "margin" }, "part"], body, { class: "wide" });
  [...made.tBodies[0].rows].forEach((tr, i) => { tr.dataset.node = idOf(rows[i]); tr.classList.toggle("chosen", idOf(rows[i]) === nodes.chosen); });
  byId("node-table").replaceChildren(made);
  byId("node-count").textContent = rows.length > PAGE
    ? `${whole(rows.length)} nodes match; the first ${PAGE} are listed.` : `${whole(rows.length)} ${rows.length === 1 ? "node matches" : "nodes match"}.`;
}

function bar(name, share, text, fill, from = 0) {
  const track = el("div", { class: "track", "aria-hidden": "true" }, el("div", { class: "fill", style: { background: fill, left: `${100 * from}%`, width: `${100 * share}%` } }));
  return [name, track, el("span", { class: "number", text })];
}

function probabilityBars(row) {
  const t = DATA.nodes, width = t.top.shape[1], top = unpack(t.top), values = unpack(t.probabilities);
  const place = el("div", { class: "bars" });
  for (let i = 0; i < width; i++) {
    const c = top[row * width + i], p = values[row * width + i];
    place.append(...bar(outside(className(c)), p, fixed(p, 3), colour(c)));
  }
  return place;
}

function contributionBars(row) {
  const t = DATA.nodes, packed = t.contributions;
  const [, branches, two] = packed.shape, values = unpack(packed), width = t.top.shape[1], top = unpack(t.top);
  const [a, b] = [top[row * width], top[row * width + 1]];
  const gap = (k) => values[(row * branches + k) * two] - (two > 1 ? values[(row * branches + k) * two + 1] : 0);
  const gaps = Array.from({ length: branches }, (_, k) => gap(k));
  const bias = unpack(t.bias);
  gaps.push(bias[row * two] - (two > 1 ? bias[row * two + 1] : 0));
  const largest = Math.max(...gaps.map(Math.abs), 1e-9), place = el("div", { class: "bars" });
  gaps.forEach((g, k) => {
    const name = k < branches ? branchName(DATA.alpha.names[k]) : "bias";
    const share = (0.5 * Math.abs(g)) / largest;
    place.append(...bar(el("span", { text: name }), share, `${g < 0 ? "−" : "+"}${Math.abs(g).toFixed(3)}`, g < 0 ? COLOURS[1] : COLOURS[0], g < 0 ? 0.5 - share : 0.5));
  });
  const total = gaps.reduce((x, y) => x + y, 0);
  const sentence = el("p", { class: "note" }, "What each branch adds to the score of ", outside(className(a)), " over ", outside(className(b)), `; together ${total < 0 ? "−" : "+"}${Math.abs(total).toFixed(3)}.`);
  return el("div", {}, sentence, place);
}

function shareBars(row) {
  const t = DATA.nodes, rows = t.shares.shape[1], two = t.shares.shape[2], values = unpack(t.shares), place = el("div", { class: "bars" });
  const found = t.experts.map((name, k) => ({ name, share: values[(k * rows + row) * two] / 32767 })).sort((a, b) => b.share - a.share);
  const total = found.reduce((sum, { share }) => sum + share, 0);
  for (const { name, share } of found) place.append(...bar(el("span", { text: name }), share, fixed(share, 3), COLOURS[0]));
  const best = unpack(t.top)[row * t.top.shape[1]];
  const sentence = el("p", { class: "note" }, "What each expert adds to the probability of ", outside(className(best)), `, its weight times its own; together ${fixed(total, 3)}, before calibration.`);
  return el("div", {}, sentence, place);
}

function jumpTable(row) {
  const t = DATA.nodes, width = t.ranks.shape[1], ranks = unpack(t.ranks), weights = unpack(t.weights), rows = [];
  t.branches.forEach((kept, k) => inUse(k) && kept.forEach((r) => {
    const id = ranks[row * width + r - 1];
    rows.push([`J${k}`, { number: String(r) }, id === idOf(row) ? "itself" : nodeButton(id), outside(className(labelOf(id))), partOf(id) || "none", { number: fixed(weights[row * width + r - 1] / 32767, 3) }]);
  }));
  const made = table(["jump", { number: "rank" }, "node", "label", "part", { number: "coefficient" }], rows, { class: "wide" });
  made.tHead.rows[0].lastChild.title = COEFFICIENT;
  return made;
}

function drawNodeCard(id) {
  const row = rowOf(id), label = labelOf(id), wrong = agreeText(id) === "wrong";
  const line = el("p", {}, "Predicted ", outside(className(predictedOf(id))), ` with probability ${fixed(unpack(DATA.nodes.probability)[row], 3)}; `);
  line.append(...(label < 0 ? ["its label is unknown."] : ["label ", outside(className(label)), wrong ? " (wrong)." : " (right)."]));
  line.append(partOf(id) ? ` A ${partOf(id)} node.` : " In no part of the split.");
  const flags = DATA.nodes.flags && DATA.nodes.flags[row];
  if (flags) line.append(el("span", { class: "tag", text: ` Take with care: ${flags.split(" ").join(", ")}.` }));
  byId("node-card").replaceChildren(
    el("h3", {}, "Node ", outside(nameOf(id))), line,
    el("h3", { text: "Probabilities" }), probabilityBars(row),
    ...(DATA.experts ? [el("h3", { text: "Experts" }), shareBars(row)] : []),
    el("h3", { text: `Branches${DATA.experts ? ` of the expert "${DATA.shown.expert}"` : ""}` }), contributionBars(row),
  );
  if (DATA.jumps) {
    byId("node-card").append(el("h3", { text: "Neighbours behind each jump" }), el("p", { class: "note", text: `Coefficient: ${COEFFICIENT}` }),
      el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Neighbours behind each jump" }, jumpTable(row)));
  }
  for (const tr of byId("node-table").querySelectorAll("tbody tr")) tr.classList.toggle("chosen", Number(tr.dataset.node) === id);
}

views.push(function nodesView() {
  const t = DATA.nodes;
  byId("nodes-note").textContent = t.shown
    ? `A random sample of ${whole(nodes.rows)} of ${whole(t.count)} nodes; all of them are in predictions.csv.`
    : `All ${whole(t.count)} nodes. Choose one to see why it was classified as it was.`;
  byId("node-part").append(el("option", { value: "", text: "any" }), ...PARTS.slice(1).map((p) => el("option", { value: p, text: p })));
  for (const id of ["node-search", "node-part", "node-outcome", "node-order"]) byId(id).addEventListener("input", drawNodeTable);
  nodes.listeners.push(drawNodeCard);
  drawNodeTable();
  choose(nodes.first);
});
