"use strict";
// Shared by all views: data, text that is never markup, colours, charts, theme.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A7D00", "#7A7F87"];
const UNKNOWN = "#9aa1ab";
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down", "plus", "pentagon"];
const PLOTLY_SHAPES = ["circle", "square", "triangle-up", "diamond", "x", "triangle-down", "cross", "pentagon"];

const colour = (c) => (c < 0 ? UNKNOWN : COLOURS[c % COLOURS.length]);
// beyond eight classes colours repeat with other shapes
const shape = (c) => (c < 0 ? "circle" : SHAPES[(c + Math.floor(c / COLOURS.length)) % SHAPES.length]);
const byId = (id) => document.getElementById(id);
const className = (c) => (c < 0 ? "unknown" : DATA.classes[c]);

function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") node.textContent = value;
    else if (key === "style") for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function svg(tag, options = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") node.textContent = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

// text from outside, in its own direction
const outside = (text) => el("bdi", { text: String(text) });

const KINDS = { f4: Float32Array, i2: Int16Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };
const unpacked = new WeakMap();
function unpack(packed) {
  if (!unpacked.has(packed)) {
    const raw = atob(packed.base64);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    unpacked.set(packed, new KINDS[packed.kind](bytes.buffer));
  }
  return unpacked.get(packed);
}

const fixed = (value, digits) => (value === null || value === undefined || Number.isNaN(value) ? "none" : value.toFixed(digits));
const percent = (value, digits = 2) => (value === null || value === undefined ? "none" : `${value.toFixed(digits)}%`);
const whole = (value) => value.toLocaleString("en");

function table(head, rows, options = {}) {
  const cell = (tag, item) => {
    const isNode = item instanceof Node;
    const number = !isNode && typeof item === "object";
    const node = el(tag, number ? { class: "number" } : {});
    node.append(isNode ? item : number ? item.number : String(item));
    return node;
  };
  const body = el("tbody");
  for (const row of rows) body.append(el("tr", {}, ...row.map((item, j) => cell(j === 0 && options.rowHeads ? "th" : "td", item))));
  for (const th of body.querySelectorAll("th")) th.setAttribute("scope", "row");
  const made = el("table", { class: options.class || "" });
  if (head.length) {
    const top = el("tr", {}, ...head.map((item) => cell("th", item)));
    for (const th of top.children) th.setAttribute("scope", "col");
    made.append(el("thead", {}, top));
  }
  made.append(body);
  return made;
}

// ---- theme -------------------------------------------------------------------------------------

const themed = [];
const isDark = () => document.documentElement.dataset.theme === "dark";
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  for (const redraw of themed) redraw();
}
function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// ---- Plotly ------------------------------------------------------------------------------------

// Plotly reads a little markup in texts; what comes from outside is shown as it is
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\s+/g, " ");

// colours of text, grid and background come from the style sheet, so that a theme costs no redraw
function plotLayout(extra) {
  const axis = { automargin: true };
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
    font: { family: "system-ui, sans-serif", size: 13 },
    margin: { l: 50, r: 10, t: 8, b: 42 },
    legend: { orientation: "h", y: -0.2, yanchor: "top" },
    dragmode: false,
    ...extra,
  };
  for (const key of Object.keys(layout)) {
    if (/^[xy]axis\d?$/.test(key)) layout[key] = { ...axis, ...layout[key], title: { text: layout[key].title || "", font: { size: 12 }, standoff: 8 } };
  }
  return layout;
}

function plot(id, label, { traces, layout }) {
  const place = byId(id);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", label);
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  place.dataset.marks = traces.reduce((sum, t) => sum + t.y.filter((v) => v !== null).length, 0);
  Plotly.react(place, traces, plotLayout(layout), config);
}

// ---- marks on a canvas -------------------------------------------------------------------------

function mark(context, kind, x, y, r) {
  context.beginPath();
  if (kind === "circle") context.arc(x, y, r, 0, 2 * Math.PI);
  else if (kind === "square") context.rect(x - r * 0.9, y - r * 0.9, 1.8 * r, 1.8 * r);
  else if (kind === "plus" || kind === "cross") {
    const a = 0.4 * r, turn = kind === "cross" ? Math.PI / 4 : 0;
    const corner = [[-a, -r], [a, -r], [a, -a], [r, -a], [r, a], [a, a], [a, r], [-a, r], [-a, a], [-r, a], [-r, -a], [-a, -a]];
    for (const [u, v] of corner) context.lineTo(x + u * Math.cos(turn) - v * Math.sin(turn), y + u * Math.sin(turn) + v * Math.cos(turn));
  } else {
    const sides = { triangle: 3, down: 3, diamond: 4, pentagon: 5 }[kind];
    const start = kind === "down" ? Math.PI / 2 : -Math.PI / 2;
    for (let i = 0; i < sides; i++) context.lineTo(x + 1.15 * r * Math.cos(start + (2 * Math.PI * i) / sides), y + 1.15 * r * Math.sin(start + (2 * Math.PI * i) / sides));
  }
  context.closePath();
  context.fill();
}

// the same shape as an SVG path, centred at 0
function markPath(kind, r) {
  const points = [];
  mark({ beginPath() {}, closePath() {}, fill() {}, lineTo: (x, y) => points.push([x, y]),
    arc() { for (let i = 0; i < 24; i++) points.push([r * Math.cos((i * Math.PI) / 12), r * Math.sin((i * Math.PI) / 12)]); },
    rect: (x, y, w, h) => points.push([x, y], [x + w, y], [x + w, y + h], [x, y + h]) }, kind, 0, 0, r);
  return "M" + points.map((p) => p.map((v) => v.toFixed(2)).join(" ")).join("L") + "Z";
}

function legend(id, classes) {
  const place = byId(id);
  place.replaceChildren();
  for (const c of classes) {
    const icon = svg("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
      svg("path", { d: markPath(shape(c), 5.5), fill: colour(c) }));
    place.append(el("li", {}, icon, outside(className(c))));
  }
}

// cividis, made for colour-blind eyes
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 179, 105], [225, 204, 85], [254, 232, 56]];
function cividis(t) {
  const place = Math.max(0, Math.min(1, t)) * (CIVIDIS.length - 1);
  const i = Math.min(CIVIDIS.length - 2, Math.floor(place)), f = place - i;
  return CIVIDIS[i].map((v, j) => v + f * (CIVIDIS[i + 1][j] - v));
}

// between 0.54 and 0.84 neither dark nor light text could be read
function heatCell(share, text) {
  const full = share > 0.6, depth = full ? 0.6 + 0.4 * share : 0.9 * share;
  return el("td", { text, class: full ? "full" : "", style: { background: `rgba(var(--heat), ${depth.toFixed(3)})` } });
}

// ---- a table that is sorted by its heads ---------------------------------------------------------

// state.sort is the key of a column, state.up its direction; a column with digits holds numbers
function sortHeads(place, made, columns, state, redraw) {
  [...made.tHead.rows[0].cells].forEach((th, j) => {
    const column = columns[j], chosen = state.sort === column.key;
    th.replaceChildren(el("button", { type: "button", text: column.name + (chosen ? (state.up ? " ▲" : " ▼") : ""), onclick: () => {
      state.up = chosen ? !state.up : column.digits === undefined;
      state.sort = column.key;
      redraw();
      place.querySelectorAll("thead button")[j].focus();
    } }));
    th.setAttribute("aria-sort", chosen ? (state.up ? "ascending" : "descending") : "none");
    th.className = column.digits === undefined ? "" : "number";
  });
}

// ---- start ---------------------------------------------------------------------------------------

// the library of the charts is packed; the policy knows the hash of what comes out
async function loadLibrary() {
  const raw = atob(byId("library").textContent), bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(el("script", { text }));
}

// what is seen at once, and what is drawn when the theory is opened
const views = [], theory = [];

function draw(list, done) {
  const rest = [...list];
  const next = () => {
    const view = rest.shift();
    if (!view) return done();
    view();
    setTimeout(next, 0);
  };
  next();
}

function openTheory() {
  const place = byId("theory-view");
  if (!place) return;
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && byId("theory").contains(target)) place.open = true;
}

async function start() {
  const wish = window.matchMedia("(prefers-color-scheme: dark)");
  setTheme(wish.matches);
  wish.addEventListener("change", (event) => setTheme(event.matches));
  byId("theme").addEventListener("click", () => setTheme(!isDark()));
  await loadLibrary();
  draw(views, () => {
    const place = byId("theory-view");
    if (place) {
      place.addEventListener("toggle", () => draw(theory.splice(0), () => { document.documentElement.dataset.theory = "true"; }));
      window.addEventListener("hashchange", openTheory);
      openTheory();
    }
    document.documentElement.dataset.ready = "true";
  });
}
