"use strict";
// The node table: search, filters, order, download, and the card of one node.

const PARTS = ["", "train", "validation", "test"];
const PAGE = 200;
const COEFFICIENT = "exp(-s d) of the distance d in U, with the scale s, before the filter is normalised; djgnn explain prints the weight after it.";
const nodes = { chosen: -1, listeners: [], sort: "", up: true };

// rows are those of the table in the page; ids are nodes of the graph
function prepareNodes() {
  const t = DATA.nodes;
  nodes.ids = t.shown ? unpack(t.shown) : null;
  nodes.rows = t.shown ? nodes.ids.length : t.count;
  nodes.rowOf = new Map();
  if (nodes.ids) nodes.ids.forEach((id, row) => nodes.rowOf.set(id, row));
  nodes.lower = t.names ? t.names.map((name) => name.toLowerCase()) : null;
  nodes.byName = t.names ? new Map(t.names.map((name, row) => [name, row])) : null;
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

// the row of a name, if the page has it
function rowNamed(name) {
  if (nodes.byName) return nodes.byName.get(name);
  const id = Number(name);
  return Number.isInteger(id) && id >= 0 && id < DATA.nodes.count ? rowOf(id) : undefined;
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

// a button that chooses a node, and goes to its card if it is far from it
function nodeButton(id, go = false) {
  if (rowOf(id) === undefined) return outside(nameOf(id));
  const onclick = () => {
    choose(id);
    if (go) byId("node-card").scrollIntoView({ block: "nearest" });
  };
  return el("button", { type: "button", class: "link", onclick }, outside(nameOf(id)));
}

const agreeText = (id) => {
  const label = labelOf(id);
  return label < 0 ? "label unknown" : label === predictedOf(id) ? "right" : "wrong";
};
const flagsOf = (row) => (DATA.nodes.flags ? DATA.nodes.flags[row] : "");
const setOf = (row) => (DATA.nodes.sets ? DATA.nodes.sets[row] : "");
// the classes of a set are joined with |; one that belongs to a name has a backslash before it
const classesOf = (set) => (set.match(/(?:\\.|[^|\\])+/g) || []).map((name) => name.replace(/\\(.)/g, "$1"));

// what the table can be sorted by; text in the order of the alphabet
const NODE_COLUMNS = [
  { key: "node", name: "node", of: (row) => nameOf(idOf(row)) },
  { key: "label", name: "label", of: (row) => (labelOf(idOf(row)) < 0 ? "" : className(labelOf(idOf(row)))) },
  { key: "prediction", name: "prediction", of: (row) => className(predictedOf(idOf(row))) },
  { key: "probability", name: "probability", digits: 3, of: (row) => unpack(DATA.nodes.probability)[row] },
  { key: "margin", name: "margin", digits: 3, of: (row) => unpack(DATA.nodes.margin)[row] },
  ...(DATA.nodes.sets ? [{ key: "set", name: "set", of: setOf }] : []),
  ...(DATA.nodes.flags ? [{ key: "flags", name: "flags", of: flagsOf }] : []),
  ...(DATA.headline.cross_fitted ? [] : [{ key: "part", name: "part", of: (row) => partOf(idOf(row)) }]),
];

function filteredRows() {
  const [part, outcome, wanted, sure, flag] = ["part", "outcome", "class", "sure", "flag"].map((name) => byId(`node-${name}`).value);
  const probability = unpack(DATA.nodes.probability), [low, high] = sure ? sure.split(" ").map(Number) : [0, 2];
  const rows = searchNodes(byId("node-search").value, nodes.rows).filter((row) => {
    const id = idOf(row);
    return (!part || partOf(id) === part) && (!outcome || agreeText(id) === outcome) && (wanted === "" || predictedOf(id) === Number(wanted))
      && probability[row] >= low && probability[row] < high && (!flag || flagsOf(row).split(" ").includes(flag));
  });
  const column = NODE_COLUMNS.find((c) => c.key === nodes.sort), sign = nodes.up ? 1 : -1;
  if (!column) {  // those that wait for an answer first
    return byId("node-search").value.trim() ? rows : [...rows.filter((row) => labelOf(idOf(row)) < 0), ...rows.filter((row) => labelOf(idOf(row)) >= 0)];
  }
  const value = new Map(rows.map((row) => [row, column.of(row)]));
  const order = new Intl.Collator("en", { numeric: true }).compare;
  return rows.sort((a, b) => sign * (column.digits === undefined ? order(value.get(a), value.get(b)) : value.get(a) - value.get(b)) || a - b);
}

function drawNodeTable() {
  const rows = filteredRows();
  const body = rows.slice(0, PAGE).map((row) => NODE_COLUMNS.map((column) => {
    const id = idOf(row), value = column.of(row);
    if (column.key === "node") return nodeButton(id);
    if (column.key === "label" && labelOf(id) < 0) return "unknown";
    if (column.key === "set") return outside(classesOf(value).join(" or ") || "none");
    if (column.key === "prediction" && agreeText(id) === "wrong") return el("span", { class: "tag" }, outside(value), " ✗");
    return column.digits === undefined ? outside(value || "none") : { number: fixed(value, column.digits) };
  }));
  const made = table(NODE_COLUMNS.map((column) => column.name), body, { class: "wide" });
  [...made.tBodies[0].rows].forEach((tr, i) => { tr.dataset.node = idOf(rows[i]); tr.classList.toggle("chosen", idOf(rows[i]) === nodes.chosen); });
  sortHeads(byId("node-table"), made, NODE_COLUMNS, nodes, drawNodeTable);
  byId("node-table").replaceChildren(made);
  byId("node-count").textContent = rows.length > PAGE
    ? `${whole(rows.length)} nodes match; the first ${PAGE} are listed.` : `${whole(rows.length)} ${rows.length === 1 ? "node matches" : "nodes match"}.`;
}

function nodesCsv() {
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = filteredRows().map((row) => NODE_COLUMNS.map((c) => quoted(c.digits === undefined ? c.of(row) : c.of(row).toFixed(6))).join(","));
  return [NODE_COLUMNS.map((c) => c.key).join(","), ...lines].join("\n") + "\n";
}

function downloadCsv() {
  const href = URL.createObjectURL(new Blob([nodesCsv()], { type: "text/csv" }));
  el("a", { href, download: "nodes.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
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
  const sentence = el("p", { class: "note" }, "What each expert adds to the probability of ", outside(className(best)), `, alone and in the product of experts; together ${fixed(total, 3)}, before calibration.`);
  return el("div", {}, sentence, place);
}

function jumpTable(row) {
  const t = DATA.nodes, width = t.columns.length, ranks = unpack(t.ranks), weights = unpack(t.weights), rows = [];
  t.branches.forEach((kept, k) => inUse(k) && kept.forEach((r) => {
    const at = row * width + t.columns.indexOf(r), id = ranks[at];
    rows.push([`J${k}`, { number: String(r) }, id === idOf(row) ? "itself" : nodeButton(id), outside(className(labelOf(id))), { number: fixed(weights[at] / 32767, 3) }]);
  }));
  const made = table(["jump", { number: "rank" }, "node", "label", { number: "coefficient" }], rows, { class: "wide" });
  made.tHead.rows[0].lastChild.title = COEFFICIENT;
  return made;
}

function drawNodeCard(id) {
  const row = rowOf(id), label = labelOf(id), wrong = agreeText(id) === "wrong";
  const line = el("p", {}, "Predicted ", outside(className(predictedOf(id))), ` with probability ${fixed(unpack(DATA.nodes.probability)[row], 3)}; `);
  line.append(...(label < 0 ? ["its label is unknown."] : ["label ", outside(className(label)), wrong ? " (wrong)." : " (right)."]));
  if (partOf(id) && !DATA.headline.cross_fitted) line.append(` A ${partOf(id)} node.`);
  if (setOf(row)) line.append(" Its set: ", outside(classesOf(setOf(row)).join(" or ")), ".");
  if (flagsOf(row)) line.append(el("span", { class: "tag", text: ` Take with care: ${flagsOf(row).split(" ").join(", ")}.` }));
  const open = byId("node-card").querySelector("details")?.open;
  const more = el("details", { class: "quiet" }, el("summary", { text: DATA.jumps ? "The theory: branches and jumps" : "The theory: branches" }),
    el("h3", { text: `Branches${DATA.experts ? ` of the expert "${DATA.shown.expert}"` : ""}` }), contributionBars(row));
  if (DATA.jumps) {
    more.append(el("h3", { text: "Neighbours behind each jump" }), el("p", { class: "note", text: `Coefficient: ${COEFFICIENT}` }),
      el("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Neighbours behind each jump" }, jumpTable(row)));
  }
  more.open = Boolean(open);
  byId("node-card").replaceChildren(
    el("h3", {}, "Node ", outside(nameOf(id))), line,
    el("h3", { text: "Probabilities" }), probabilityBars(row),
    ...(DATA.experts ? [el("h3", { text: "Experts" }), shareBars(row)] : []), more,
  );
  for (const tr of byId("node-table").querySelectorAll("tbody tr")) tr.classList.toggle("chosen", Number(tr.dataset.node) === id);
}

// the choices of a filter; one without any is not shown
function fillFilter(name, choices) {
  const select = byId(`node-${name}`);
  select.append(el("option", { value: "", text: "any" }), ...choices.map(([value, text]) => el("option", { value, text })));
  select.closest("label").hidden = !choices.length;
}

prepareNodes();

views.push(function nodesView() {
  const t = DATA.nodes, unlabelled = DATA.headline.unlabelled;
  byId("nodes-note").textContent = (t.shown
    ? `A random sample of ${whole(nodes.rows)} of ${whole(t.count)} nodes; all of them are in predictions.csv.`
    : `All ${whole(t.count)} nodes${unlabelled ? ", those without a label first" : ""}.`) + " Sort by a column's head; choose a node to see why it was classified as it was.";
  fillFilter("class", DATA.classes.map((name, c) => [c, name]));
  fillFilter("sure", [["0.95 2", "95% and more"], ["0.9 2", "90% and more"], ["0.8 2", "80% and more"], ["0.6 2", "60% and more"], ["0 0.6", "below 60%"]]);
  fillFilter("part", DATA.headline.cross_fitted ? [] : PARTS.slice(1).map((p) => [p, p]));
  fillFilter("flag", [...new Set((t.flags || []).flatMap((f) => f.split(" ")))].filter(Boolean).sort().map((f) => [f, f]));
  for (const name of ["search", "outcome", "class", "sure", "part", "flag"]) byId(`node-${name}`).addEventListener("input", drawNodeTable);
  byId("node-csv").addEventListener("click", downloadCsv);
  nodes.listeners.push(drawNodeCard);
  drawNodeTable();
  choose(idOf(filteredRows()[0] ?? 0));
});
