"use strict";
// Jump against hop: the rings of one node on the graph, and in U.

const RING_MOST = 40, HOPS = 3;

// neighbours along edges in either direction, built once
function neighbourLists() {
  if (nodes.lists) return nodes.lists;
  const { degree, target } = DATA.nodes.edges, n = DATA.nodes.count, out = unpack(degree), ends = unpack(target);
  const count = new Uint32Array(n + 1);
  let e = 0;
  for (let i = 0; i < n; i++) for (let d = 0; d < out[i]; d++, e++) { count[i + 1]++; count[ends[e] + 1]++; }
  for (let i = 0; i < n; i++) count[i + 1] += count[i];
  const begin = count.slice(), list = new Uint32Array(2 * ends.length);
  e = 0;
  for (let i = 0; i < n; i++) for (let d = 0; d < out[i]; d++, e++) { list[count[i]++] = ends[e]; list[count[ends[e]]++] = i; }
  nodes.lists = { begin, list };
  return nodes.lists;
}

function hopRings(id) {
  const { begin, list } = neighbourLists(), seen = new Map([[id, id]]), rings = [[id]];
  for (let h = 1; h <= HOPS; h++) {
    const ring = [];
    for (const i of rings[h - 1]) for (let e = begin[i]; e < begin[i + 1]; e++) {
      const j = list[e];
      if (!seen.has(j)) { seen.set(j, i); ring.push(j); }
    }
    if (!ring.length) break;
    rings.push(ring);
  }
  return { rings: rings.slice(1).map((all) => ({ all })), parent: seen };
}

function jumpRings(id) {
  const t = DATA.nodes, row = rowOf(id), width = t.columns.length, ranks = unpack(t.ranks);
  const rings = t.branches.map((kept, k) => ({ name: `J${k}`, all: kept.map((r) => ranks[row * width + t.columns.indexOf(r)]) }));
  return rings.filter((ring, k) => ring.all.length && inUse(k));
}

// evenly spaced members of a ring, those of like label side by side
function spread(all) {
  const sorted = [...all].sort((a, b) => labelOf(a) - labelOf(b) || a - b);
  if (sorted.length <= RING_MOST) return sorted;
  return Array.from({ length: RING_MOST }, (_, i) => sorted[Math.floor((i * sorted.length) / RING_MOST)]);
}

function ringPicture(id, rings, parent, label) {
  const size = 460, middle = size / 2, gap = (middle - 16) / Math.max(rings.length, 1);
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "rings", role: "img", "aria-label": label });
  const at = new Map([[id, [middle, middle]]]), edges = svg("g", {}), marks = svg("g", {}), rims = svg("g", {}), names = svg("g", {});
  rings.forEach((ring, h) => {
    const radius = gap * (h + 1), drawn = spread(ring.all), free = Math.min(0.5, 24 / radius), turn = rings.length > HOPS && drawn.length === 1 ? (h * 2 * Math.PI) / (rings.length + 0.62) : 0;
    rims.append(svg("circle", { class: "ring", cx: middle, cy: middle, r: radius }));
    names.append(svg("text", { x: middle, y: middle - radius + 4, text: ring.name }));
    drawn.forEach((j, i) => {
      const angle = turn + free + ((2 * Math.PI - 2 * free) * (i + 0.5)) / drawn.length, x = middle + radius * Math.sin(angle), y = middle - radius * Math.cos(angle);
      const from = parent ? at.get(parent.get(j)) : [middle, middle];
      if (from) edges.append(svg("line", { class: "edge", x1: from[0], y1: from[1], x2: x, y2: y }));
      if (!at.has(j)) at.set(j, [x, y]);
      marks.append(svg("path", { class: "node", d: markPath(shape(labelOf(j)), rings.length > HOPS ? 8 : 6), fill: colour(labelOf(j)), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` },
        svg("title", { text: `${nameOf(j)}: ${className(labelOf(j))}` })));
    });
  });
  const centre = svg("path", { class: "centre", d: markPath(shape(labelOf(id)), 11), fill: colour(labelOf(id)), transform: `translate(${middle} ${middle})` });
  root.append(rims, edges, marks, names, centre);
  return root;
}

function ringTable(id, rings) {
  const label = labelOf(id);
  const rows = rings.map((ring) => {
    const others = ring.all.filter((j) => j !== id && labelOf(j) >= 0), same = others.filter((j) => labelOf(j) === label).length;
    const count = ring.all.filter((j) => j !== id).length, itself = ring.all.includes(id);
    return [ring.name, { number: itself ? (count ? `${whole(count)} and itself` : "itself") : whole(count) }, { number: label < 0 || !others.length ? "none" : `${whole(same)} (${percent((100 * same) / others.length, 0)})` }];
  });
  return table(["ring", { number: "nodes" }, { number: "same label" }], rows, { class: "wide" });
}

function drawRings(id) {
  const hops = hopRings(id), jumped = jumpRings(id);
  hops.rings.forEach((ring, h) => { ring.name = h ? `${h + 1} hops` : "1 hop"; });
  byId("hop-rings").replaceChildren(ringPicture(id, hops.rings, hops.parent, `Hop rings of the node: ${hops.rings.map((r) => `${r.name} ${r.all.length} nodes`).join(", ") || "no neighbour"}.`));
  byId("jump-rings").replaceChildren(ringPicture(id, jumped, null, `Jump rings of the node: ${jumped.map((r) => `${r.name} ${r.all.length} nodes`).join(", ")}.`));
  byId("hop-table").replaceChildren(ringTable(id, hops.rings));
  byId("jump-table").replaceChildren(ringTable(id, jumped));
  byId("ring-node").replaceChildren("Node ", outside(nameOf(id)), ", label ", outside(className(labelOf(id))), ".");
}

// a good first example: an unlike neighbourhood, and jumps that agree
function firstNode() {
  const { begin, list } = neighbourLists();
  let best = 0, merit = -Infinity;
  for (let row = 0; row < Math.min(nodes.rows, 3000); row++) {
    const id = idOf(row), label = labelOf(id), degree = begin[id + 1] - begin[id];
    if (label < 0 || degree < 3) continue;
    const share = (all) => { const others = all.filter((j) => j !== id); return others.length ? others.filter((j) => labelOf(j) === label).length / others.length : 0; };
    const found = share(jumpRings(id).flatMap((ring) => ring.all)) - share(Array.from(list.subarray(begin[id], begin[id + 1]))) + (partOf(id) === "test" ? 0.01 : 0);
    if (found > merit) { merit = found; best = id; }
  }
  return best;
}

theory.push(function ringsView() {
  if (!DATA.jumps) {
    byId("rings-note").textContent = "Left out: nothing in this model jumps.";
    byId("rings-view").remove();
    return;
  }
  const edges = DATA.nodes.edges;
  byId("rings-note").textContent = `The node in the middle, once among its neighbours in the graph and once among those that ${DATA.experts ? `the expert "${DATA.shown.expert}"` : "the model"} jumps to.`
    + ` A ring shows at most ${RING_MOST} of its nodes; the tables count all, of a jump over many ranks the nearest.` + (edges.complete ? "" : ` This page keeps at most ${edges.kept} edges of each node, so hop rings are lower bounds.`)
    + " The first node shown is not a typical one: of those looked at, its jumps agree with its label the most beyond what its neighbours do.";
  nodes.listeners.push(drawRings);
  const search = byId("ring-search"), place = byId("ring-matches");
  search.addEventListener("input", () => {
    const found = search.value.trim() ? searchNodes(search.value, 12) : [];
    place.replaceChildren(...found.map((row) => el("li", {}, nodeButton(idOf(row)))));
    if (search.value.trim() && !found.length) place.append(el("li", { text: "no node of that name" }));
  });
  search.addEventListener("keydown", (event) => {
    const found = event.key === "Enter" ? searchNodes(search.value, 1) : [];
    if (found.length) choose(idOf(found[0]));
  });
  byId("ring-random").addEventListener("click", () => choose(idOf(Math.floor(Math.random() * nodes.rows))));
  const present = new Set(unpack(DATA.nodes.labels));
  legend("ring-legend", [...present].map((v) => v - 1).sort((a, b) => a - b));
  drawRings(firstNode());
});
