"use strict";
// The homophiliation player: one slider moves the weights, the support, its graph and the scores.

// greys that are seen on both grounds, so that a theme costs no redraw
const FAINT = "rgba(128, 138, 150, .62)", FAINTER = "rgba(128, 138, 150, .3)";
const player = { at: 0, filter: 1, timer: 0 };

function sharper(id) {
  const canvas = byId(id), context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  return { canvas, context, size: canvas.width };
}

// where one class ends and the next begins, in the order drawn
function classBorders(labels) {
  const borders = [];
  for (let i = 1; i < labels.length; i++) if (labels[i] !== labels[i - 1]) borders.push(i);
  return borders;
}

function drawBorders(context, borders, count, size, stroke) {
  context.strokeStyle = stroke;
  context.lineWidth = 1;
  context.beginPath();
  for (const b of borders) {
    const at = (b / count) * size;
    context.moveTo(at, 0); context.lineTo(at, size);
    context.moveTo(0, at); context.lineTo(size, at);
  }
  context.stroke();
}

const RAMP = new Uint32Array(256);
for (let i = 0; i < 256; i++) {
  const [r, g, b] = cividis(i / 255).map(Math.round);
  RAMP[i] = (255 << 24) | (b << 16) | (g << 8) | r;
}

// exp(-s d) of all pairs drawn, row by row
function pairWeights(p, u, m) {
  const width = p.u.shape[2], at = player.at * m * width, s = p.scale[player.at] / 32767;
  const weights = player.weights || (player.weights = new Float32Array(m * m));
  for (let i = 0; i < m; i++) {
    const mine = at + i * width;
    weights[i * m + i] = 1;
    for (let j = 0; j < i; j++) {
      const theirs = at + j * width;
      let square = 0;
      for (let k = 0; k < width; k++) {
        const gap = u[mine + k] - u[theirs + k];
        square += gap * gap;
      }
      weights[i * m + j] = weights[j * m + i] = Math.exp(-s * Math.sqrt(square));
    }
  }
  return weights;
}

// the colours run from the weight that one pair in ten is below, up to 1
function lowWeight(weights) {
  const step = Math.max(1, Math.floor(weights.length / 4001)), some = [];
  for (let i = 0; i < weights.length; i += step) some.push(weights[i]);
  return Math.min(0.99, some.sort((a, b) => a - b)[Math.floor(some.length / 10)]);
}

function drawWeights(p, u, m) {
  const { canvas, context, size } = sharper("panel-weights");
  const weights = pairWeights(p, u, m), low = lowWeight(weights);
  const image = new ImageData(m, m), pixels = new Uint32Array(image.data.buffer);
  const stretch = 255 / (1 - low);
  for (let i = 0; i < weights.length; i++) pixels[i] = RAMP[Math.max(0, Math.round(stretch * (weights[i] - low)))];
  const buffer = player.buffer || (player.buffer = document.createElement("canvas"));
  buffer.width = buffer.height = m;
  buffer.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = m > size;
  context.drawImage(buffer, 0, 0, size, size);
  drawBorders(context, player.borders, m, size, "rgba(255,255,255,.55)");
  byId("ramp-low").textContent = `≤ ${low.toFixed(3)}`;
  canvas.dataset.marks = m * m;
  canvas.setAttribute("aria-label", `Weights of ${whole(m)} by ${whole(m)} pairs at epoch ${p.epochs[player.at]}, from ${low.toFixed(3)} to 1; the scale s is ${p.scale[player.at].toFixed(3)}.`);
}

// links of the chosen filter among the nodes drawn, without those of a node to itself
function links(p, ranks, m) {
  const width = p.ranks.shape[2], at = player.at * m * width, found = [];
  for (const r of p.branches[player.filter] || []) {
    if (r > width) continue;
    for (let i = 0; i < m; i++) {
      const j = ranks[at + i * width + r - 1];
      if (j !== i) found.push([i, j]);
    }
  }
  return found;
}

function drawSupport(p, found, m) {
  const { canvas, context, size } = sharper("panel-support");
  drawBorders(context, player.borders, m, size, FAINTER);
  const cell = Math.max(4, size / m);
  for (const same of [false, true]) {
    for (const [i, j] of found) {
      if ((p.labels[i] === p.labels[j] && p.labels[i] >= 0) !== same) continue;
      context.fillStyle = same ? colour(p.labels[i]) : FAINT;
      context.fillRect((j / m) * size - (cell - size / m) / 2, (i / m) * size - (cell - size / m) / 2, cell, cell);
    }
  }
  canvas.dataset.marks = found.length;
  canvas.setAttribute("aria-label", `Support of filter J${player.filter} at epoch ${p.epochs[player.at]}: ${whole(found.length)} links.`);
}

function drawGraph(p, found, m) {
  const { canvas, context, size } = sharper("panel-graph");
  const middle = size / 2, radius = size * 0.455;
  const place = (i) => [middle + radius * Math.sin((2 * Math.PI * i) / m), middle - radius * Math.cos((2 * Math.PI * i) / m)];
  for (const same of [false, true]) {
    for (const [i, j] of found) {
      if ((p.labels[i] === p.labels[j] && p.labels[i] >= 0) !== same) continue;
      const [x0, y0] = place(i), [x1, y1] = place(j);
      context.strokeStyle = same ? colour(p.labels[i]) : FAINT;
      context.globalAlpha = same ? 0.75 : 0.5;
      context.lineWidth = same ? 1.6 : 1;
      context.beginPath();
      context.moveTo(x0, y0);
      context.quadraticCurveTo((x0 + x1) / 2 + (middle - (x0 + x1) / 2) * 0.35, (y0 + y1) / 2 + (middle - (y0 + y1) / 2) * 0.35, x1, y1);
      context.stroke();
    }
  }
  context.globalAlpha = 1;
  const r = Math.max(2.6, Math.min(7, (Math.PI * radius) / m));
  for (let i = 0; i < m; i++) {
    context.fillStyle = colour(p.labels[i]);
    mark(context, shape(p.labels[i]), ...place(i), r);
  }
  canvas.dataset.marks = m + found.length;
  canvas.setAttribute("aria-label", `Graph of filter J${player.filter} at epoch ${p.epochs[player.at]}: ${whole(m)} nodes, ${whole(found.length)} links.`);
}

function drawPoints(p, points, m) {
  const { canvas, context, size } = sharper("panel-points");
  const at = player.at * m * 2, reach = size * 0.46;
  context.globalAlpha = 0.85;
  for (let i = 0; i < m; i++) {
    context.fillStyle = colour(p.labels[i]);
    mark(context, shape(p.labels[i]), size / 2 + (reach * points[at + 2 * i]) / 32767, size / 2 - (reach * points[at + 2 * i + 1]) / 32767, 4.6);
  }
  context.globalAlpha = 1;
  canvas.dataset.marks = m;
  canvas.setAttribute("aria-label", `Class scores of ${whole(m)} nodes in two dimensions at epoch ${p.epochs[player.at]}.`);
}

function drawPlayer() {
  const p = DATA.player, m = p.nodes.length;
  const found = links(p, unpack(p.ranks), m);
  drawWeights(p, unpack(p.u), m);
  drawSupport(p, found, m);
  drawGraph(p, found, m);
  drawPoints(p, unpack(p.points), m);
  const epoch = p.epochs[player.at], chosen = epoch === p.selected ? " (kept)" : "";
  byId("epoch-now").textContent = `${epoch}${chosen}`;
  byId("epoch").setAttribute("aria-valuetext", `epoch ${epoch}${chosen}`);
  const here = p.agreement[player.at][player.filter];
  const base = p.homophily === null ? "" : `, against ${percent(100 * p.homophily, 1)} of the graph's own edges`;
  byId("player-readout").textContent = here.links
    ? `Epoch ${epoch}, filter J${player.filter}: ${percent(100 * here.share, 1)} of ${whole(here.links)} links join equal labels${base}. ${whole(here.own)} further links are of a node to itself.`
    : `Epoch ${epoch}, filter J${player.filter}: every node is linked to itself only.`;
}

function play() {
  const button = byId("play"), slider = byId("epoch");
  if (player.timer) {
    clearInterval(player.timer);
    player.timer = 0;
    button.textContent = "Play";
    return;
  }
  if (player.at === DATA.player.epochs.length - 1) player.at = -1;
  button.textContent = "Pause";
  const step = () => {
    if (player.at >= DATA.player.epochs.length - 1) return play();
    slider.value = ++player.at;
    drawPlayer();
  };
  player.timer = setInterval(step, 450);
  step();
}

function drawAgreement() {
  const p = DATA.player;
  const kept = p.branches.map((ranks, k) => k).filter((k) => p.agreement.some((row) => row[k].links));
  const traces = kept.map((k) => ({
    type: "scatter", mode: "lines+markers", x: p.epochs, y: p.agreement.map((row) => (row[k].links ? 100 * row[k].share : null)), name: `J${k}`,
    line: { color: colour(k), dash: dashes[k % dashes.length], width: 2 }, marker: { symbol: PLOTLY_SHAPES[k % 8], size: 6 }, hovertemplate: `%{y:.1f}%<extra>J${k}, epoch %{x}</extra>`,
  }));
  if (p.homophily !== null) {
    const ends = [p.epochs[0], p.epochs[p.epochs.length - 1]];
    traces.push({ type: "scatter", mode: "lines", x: ends, y: ends.map(() => 100 * p.homophily), name: "edges of the graph", line: { color: UNKNOWN, dash: "dash", width: 2 }, hovertemplate: "%{y:.1f}%<extra>edges of the graph</extra>" });
  }
  plot("agreement", `Share of same-label links of ${kept.length} filters at ${p.epochs.length} epochs.`, {
    traces, layout: { xaxis: { title: "epoch" }, yaxis: { title: "same-label links (%)", rangemode: "tozero" }, shapes: keptLine() },
  });
}

theory.push(function playerView() {
  const p = DATA.player, note = byId("player-note");
  if (!DATA.jumps) {
    note.textContent = "Left out: nothing in this model jumps.";
    return;
  }
  if (!p) {
    note.textContent = "Not recorded. Train with `djgnn fit --record` to watch distances, filters and embedding change together.";
    return;
  }
  const m = p.nodes.length;
  const whose = DATA.experts ? `The expert "${DATA.shown.expert}", of weight ${fixed(DATA.shown.weight, 2)}. ` : "";
  note.textContent = whose + (p.whole
    ? `All ${whole(m)} nodes, at ${p.epochs.length} epochs of training.`
    : `A random sample of ${whole(m)} of ${whole(p.num_nodes)} nodes, at ${p.epochs.length} epochs. In the matrix and the graph each node is linked within the sample, by the same rule; the shares below are of its true links, anywhere in the graph.`);
  byId("player-view").hidden = false;
  player.borders = classBorders(p.labels);
  const slider = byId("epoch"), select = byId("filter");
  slider.max = p.epochs.length - 1;
  const kept = (ranks) => (ranks.length > 2 && ranks[ranks.length - 1] - ranks[0] === ranks.length - 1 ? `ranks ${ranks[0]} to ${ranks[ranks.length - 1]}` : `rank ${ranks.join(", ")}`);
  p.branches.forEach((ranks, k) => select.append(el("option", { value: k, text: `J${k} (${ranks.length ? kept(ranks) : "itself"}${inUse(k) ? "" : "; dropped"})` })));
  player.filter = Math.min(2, p.branches.length - 1);
  player.at = p.epochs.indexOf(p.selected);
  select.value = player.filter;
  slider.value = player.at;
  slider.addEventListener("input", () => { player.at = Number(slider.value); drawPlayer(); });
  select.addEventListener("change", () => { player.filter = Number(select.value); drawPlayer(); });
  byId("play").addEventListener("click", play);
  const stops = CIVIDIS.map((c) => `rgb(${c.join(",")})`).join(",");
  document.querySelector(".ramp").style.background = `linear-gradient(90deg, ${stops})`;
  legend("player-legend", [...new Set(p.labels)].sort((a, b) => a - b));
  drawPlayer();
  drawAgreement();
});
