"use strict";
// The Fiedler environment: columns of U beside the true eigenvectors.

function drawEnergies(f) {
  const columns = f.centred_energies.map((_, r) => `u${r + 1}`), vectors = f.eigenvalues.map((_, r) => `ψ${r + 2}`);
  plot("energies", `Energies of ${columns.length} columns of U: ${f.centred_energies.map((v) => fixed(v, 3)).join(", ")}; eigenvalues ${f.eigenvalues.map((v) => fixed(v, 3)).join(", ")}.`, {
    traces: [
      { type: "bar", x: columns, y: f.centred_energies, name: "columns of U", marker: { color: COLOURS[0] }, hovertemplate: "%{x}: %{y:.4f}<extra></extra>" },
      { type: "bar", x: vectors, y: f.eigenvalues, name: "eigenvectors", marker: { color: COLOURS[1], pattern: { shape: "/", fgopacity: 0.5 } }, hovertemplate: "%{x}: %{y:.4f}<extra></extra>" },
    ],
    layout: { xaxis: { title: "" }, yaxis: { title: "energy", rangemode: "tozero" } },
  });
}

function drawCosine(f) {
  const made = el("table", { class: "heat" }), top = el("tr", {}, el("th", { scope: "col", text: "column" }));
  f.eigenvalues.forEach((v, r) => top.append(el("th", { scope: "col", class: "number", text: `ψ${r + 2}` })));
  const body = el("tbody");
  f.cosine.forEach((row, r) => body.append(el("tr", {}, el("th", { scope: "row", text: `u${r + 1}` }), ...row.map((v) => heatCell(v || 0, fixed(v, 2))))));
  made.append(el("thead", {}, top), body);
  byId("cosine").replaceChildren(made);
}

function drawAlignment(f) {
  const { canvas, context } = sharper("alignment"), w = canvas.width, h = canvas.height, m = f.shown.length;
  const r = Number(byId("column").value), e = Number(byId("eigenvector").value);
  const u = unpack(f.columns).subarray(r * m, (r + 1) * m), psi = unpack(f.eigenvectors).subarray(e * m, (e + 1) * m);
  const reach = (values) => { const sorted = Array.from(values, Math.abs).sort((a, b) => a - b); return 1.08 * (sorted[Math.floor(0.99 * (m - 1))] || 1); };
  const across = reach(psi), up = reach(u), pad = 34;
  const x = (v) => pad + ((Math.max(-1, Math.min(1, v / across)) + 1) / 2) * (w - 2 * pad), y = (v) => h - pad - ((Math.max(-1, Math.min(1, v / up)) + 1) / 2) * (h - 2 * pad);
  context.strokeStyle = css("--line");
  context.beginPath();
  context.moveTo(x(0), pad); context.lineTo(x(0), h - pad); context.moveTo(pad, y(0)); context.lineTo(w - pad, y(0));
  context.stroke();
  context.globalAlpha = 0.8;
  for (let i = 0; i < m; i++) { context.fillStyle = colour(f.labels[i]); mark(context, shape(f.labels[i]), x(psi[i]), y(u[i]), 5); }
  context.globalAlpha = 1;
  context.fillStyle = css("--soft");
  context.font = "18px system-ui, sans-serif";
  context.textAlign = "center";
  context.fillText(`true eigenvector ψ${e + 2} (eigenvalue ${fixed(f.eigenvalues[e], 4)})`, w / 2, h - 8);
  context.save();
  context.translate(20, h / 2); context.rotate(-Math.PI / 2);
  context.fillText(`column u${r + 1} of U`, 0, 0);
  context.restore();
  canvas.dataset.marks = m;
  canvas.setAttribute("aria-label", `${whole(m)} nodes by eigenvector ψ${e + 2} across and column u${r + 1} up; their cosine is ${fixed(f.cosine[r][e], 2)}.`);
}

theory.push(function environmentView() {
  const f = DATA.environment, note = byId("environment-note");
  if (!f || f.reason) {
    note.textContent = f ? f.reason : "Not computed yet.";
    return;
  }
  byId("environment-view").hidden = false;
  note.textContent = `${f.symmetrised ? "The symmetrised graph's" : "The graph's"} largest component, ${whole(f.num_nodes)} nodes (${percent(100 * f.component_share, 1)} of all).`
    + ` The columns of U together hold ${percent(100 * f.fiedler_share, 1)} of the Fiedler vector ψ2; their trace ratio is ${fixed(f.trace_ratio, 3)};`
    + ` distances in U follow commute times with a rank correlation of ${fixed(f.commute_rank_correlation, 2)}${f.commute_error ? ` (standard error ${fixed(f.commute_error, 2)}, pairs of ${whole(f.commute_nodes)} random nodes)` : ""}.`
    + (f.residual ? ` The eigenvectors are known to a residual of ${f.residual.toPrecision(1)}.` : "")
    + (f.shown.length < f.num_nodes ? ` The scatter shows a random ${whole(f.shown.length)} of the nodes.` : "");
  drawEnergies(f);
  drawCosine(f);
  f.centred_energies.forEach((_, r) => byId("column").append(el("option", { value: r, text: `u${r + 1}` })));
  f.eigenvalues.forEach((_, r) => byId("eigenvector").append(el("option", { value: r, text: `ψ${r + 2}` })));
  let best = [0, 0];
  f.cosine.forEach((row, r) => row.forEach((v, e) => { if (v > f.cosine[best[0]][best[1]]) best = [r, e]; }));
  byId("column").value = best[0];
  byId("eigenvector").value = best[1];
  const draw = () => drawAlignment(f);
  byId("column").addEventListener("change", draw);
  byId("eigenvector").addEventListener("change", draw);
  themed.push(draw);
  legend("environment-legend", [...new Set(f.labels)].sort((a, b) => a - b));
  draw();
});
