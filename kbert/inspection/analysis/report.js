"use strict";
// Draws the report from the data in the page. All that comes from texts and models is put in as text.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "style") Object.assign(made.style, value);
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function svgElement(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

const shortened = (text, most = 60) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(2);
const percent = (fraction) => `${(100 * fraction).toFixed(1)}%`;
const named = (layer) => (layer ? `layer ${layer}` : "the embeddings");
const tint = (colour, fraction) => `rgba(var(--${colour}), ${Math.max(0, Math.min(1, fraction)).toFixed(3)})`;
const range = (count) => Array.from({ length: count }, (_, n) => n);

function section(title, ...notes) {
  main.append(element("h2", {}, title), ...notes.map((note) => element("p", { className: "note" }, note)));
}

function chooser(title, names, change) {
  const select = element("select", {}, ...names.map((name, n) => element("option", { value: n }, name)));
  select.addEventListener("change", () => change(Number(select.value)));
  return [element("label", {}, title, select), select];
}

// A table of numbers, darker where higher.
function heatTable(values, rows, columns, caption, high) {
  const most = high ?? Math.max(...values.flat(), 1e-9);
  const head = element("tr", {}, element("td"), ...columns.map((name) => element("th", { scope: "col" }, name)));
  const body = values.map((row, n) =>
    element("tr", {}, element("th", { scope: "row" }, rows[n]),
      ...row.map((value) => element("td", { style: { background: tint("blue", (0.75 * value) / most) } }, value.toFixed(2)))));
  return element("div", { className: "scroll", tabIndex: 0 },
    element("table", {}, element("caption", { className: "note" }, caption), element("thead", {}, head), element("tbody", {}, ...body)));
}

function unpack(text, layers, heads, shown) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  return (layer, head, from, to) =>
    numbers.getUint16(2 * (((layer * heads + head) * shown + from) * shown + to), true) / 65535;
}

// What there is to see, in a few sentences.
function summary() {
  const parts = [];
  data.attributions.forEach((one, n) => {
    if (!one) return;
    const order = range(one.tokens.length).sort((a, b) => Math.abs(one.attributions[b]) - Math.abs(one.attributions[a]));
    const words = order.slice(0, 3).map((k) => `${one.tokens[k]} (${signed(one.attributions[k])})`);
    parts.push(`“${shortened(data.texts[n].texts.join(" | "))}”: what decided ${one.target} was above all ${words.join(", ")}.`);
  });
  const kinds = { to_cls: "at [CLS]", to_sep: "at [SEP]", next: "at the next token", previous: "at the token before" };
  const found = Object.entries(kinds).map(([name, where]) => [where, (data.head_statistics[name] ?? []).flat()])
    .map(([where, fractions]) => [where, fractions.filter((fraction) => fraction > 0.5).length]).filter(([, count]) => count);
  const heads = data.model.layers * data.model.heads;
  parts.push(found.length
    ? `Of ${heads} heads, ${found.map(([where, count]) => `${count} look${count === 1 ? "s" : ""} ${where}`).join(", ")} with more than half of the attention.`
    : `None of the ${heads} heads gives more than half of its attention to [CLS], [SEP] or a neighbour.`);
  for (const [name, one] of Object.entries(data.probes)) {
    const best = one.best_layer;
    parts.push(`${name} can be read best off ${named(best)}: ${percent(one.accuracy[best])} (the most frequent label: ${percent(one.majority)}; the control task: ${percent(one.control_accuracy[best])}).`);
  }
  if (data.similarity) {
    const { other, cka } = data.similarity, shared = Math.min(cka.length, cka[0].length);
    const diagonal = range(shared).map((k) => `${cka[k][k].toFixed(2)} (${named(k)})`);
    parts.push(`Similarity to the same layer of ${other}: ${diagonal.join(", ")}.`);
  }
  section("In short");
  main.append(element("ul", { className: "summary" }, ...parts.map((part) => element("li", {}, part))));
}

function attention() {
  const { layers, heads } = data.model;
  section("Attention", "Choose a layer and a head; each row of the map is a token that attends, and adds up to 100%. Shades go with the square root, so that small fractions can be seen. Move over a cell, or into the map with the tab and arrow keys, to read its number.");
  const state = { text: 0, layer: 0, head: 0 };
  const grid = element("div", { className: "grid", role: "group", "aria-label": "layers and heads" });
  grid.style.gridTemplateColumns = `auto repeat(${heads}, auto)`;
  const readout = element("p", { className: "readout", role: "status" });
  const map = element("div", { className: "scroll" }), norms = element("div");
  const [textLabel, textSelect] = chooser("text", data.texts.map((one, n) => `${n + 1}: ${shortened(one.texts.join(" | "))}`), (n) => { state.text = n; fill(); });
  const [layerLabel, layerSelect] = chooser("layer", range(layers).map((n) => `${n + 1}`), (n) => { state.layer = n; draw(); });
  const [headLabel, headSelect] = chooser("head", range(heads).map((n) => `${n + 1}`), (n) => { state.head = n; draw(); });
  let probability, buttons;

  function fill() {
    const one = data.texts[state.text];
    probability = unpack(one.attention, layers, heads, one.shown);
    buttons = [];
    grid.replaceChildren();
    for (const layer of range(layers)) {
      grid.append(element("span", {}, `layer ${layer + 1}`));
      for (const head of range(heads)) {
        const canvas = element("canvas", { width: one.shown, height: one.shown, style: { width: "36px", height: "36px" } });
        const context = canvas.getContext("2d");
        const pixels = context.createImageData(one.shown, one.shown);
        for (const from of range(one.shown)) for (const to of range(one.shown)) {
          pixels.data.set([0, 114, 178, Math.round(255 * Math.sqrt(probability(layer, head, from, to)))], 4 * (from * one.shown + to));
        }
        context.putImageData(pixels, 0, 0);
        const button = element("button", { type: "button", tabIndex: -1, "aria-label": `layer ${layer + 1}, head ${head + 1}` }, canvas);
        button.addEventListener("click", () => { Object.assign(state, { layer, head }); draw(); });
        buttons.push(button);
        grid.append(button);
      }
    }
    const names = range(layers + 1).map((n) => (n ? `layer ${n}` : "embeddings"));
    norms.replaceChildren(heatTable(one.norms, names, one.tokens.slice(0, one.shown), "length of each token's hidden state"));
    draw();
  }

  function draw() {
    const one = data.texts[state.text], tokens = one.tokens.slice(0, one.shown);
    layerSelect.value = state.layer;
    headSelect.value = state.head;
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", n === state.layer * heads + state.head));
    const columns = tokens.map((token) => element("th", { scope: "col" }, token));
    const names = tokens.map((token) => element("th", { scope: "row" }, token));
    const cells = tokens.map((from, i) => tokens.map((to, j) => {
      const value = probability(state.layer, state.head, i, j);
      const cell = element("td", { style: { background: tint("blue", Math.sqrt(value)) }, tabIndex: i + j ? -1 : 0, "aria-label": `${from} to ${to} ${percent(value)}` });
      const show = () => {
        readout.textContent = `${from} → ${to}: ${percent(value)}`;
        columns.forEach((head, n) => head.classList.toggle("on", n === j));
        names.forEach((head, n) => head.classList.toggle("on", n === i));
      };
      cell.addEventListener("pointerenter", show);
      cell.addEventListener("focus", show);
      cell.addEventListener("keydown", (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        const next = step && cells[i + step[0]]?.[j + step[1]];
        if (next) { event.preventDefault(); cell.tabIndex = -1; next.tabIndex = 0; next.focus(); }
      });
      return cell;
    }));
    const rows = cells.map((row, n) => element("tr", {}, names[n], ...row));
    map.replaceChildren(element("table", { className: "map" },
      element("thead", {}, element("tr", {}, element("td"), ...columns)), element("tbody", {}, ...rows)));
    const cut = one.tokens.length - one.shown + one.truncated;
    readout.textContent = cut ? `The last ${cut} tokens of the text are not shown.` : "";
  }

  main.append(element("div", { className: "controls" }, textLabel, layerLabel, headLabel),
    element("div", { className: "scroll", tabIndex: 0 }, grid), readout, map, norms);
  fill();
}

function statistics() {
  const names = Object.keys(data.head_statistics);
  if (!names.length) return;
  section("Heads", "Means over the tokens of all texts.");
  const place = element("div"), note = element("p");
  const draw = (n) => {
    const values = data.head_statistics[names[n]];
    note.textContent = data.meaning[names[n]];
    place.replaceChildren(heatTable(values, range(values.length).map((k) => `layer ${k + 1}`),
      range(values[0].length).map((k) => `head ${k + 1}`), names[n], n < 2 ? undefined : 1));
  };
  main.append(element("div", { className: "controls" }, chooser("statistic", names, draw)[0]), note, place);
  draw(0);
}

function agreement() {
  const parts = [];
  if (data.syntax) {
    const { words, baseline } = data.syntax;
    parts.push(["to_head", data.syntax.to_head, `fraction of ${words} words that attend most to their syntactic head; the best fixed distance: ${percent(baseline)}`]);
    parts.push(["from_head", data.syntax.from_head, `fraction of ${words} words to which their head attends most`]);
  }
  if (data.entities) {
    const { words, uniform } = data.entities;
    parts.push(["entities", data.entities.fraction, `fraction of the attention of ${words} words in entities that stays within the entity; if all words got the same: ${percent(uniform)}`]);
  }
  if (!parts.length) return;
  section("Heads and annotations");
  for (const [, values, caption] of parts) {
    main.append(heatTable(values, range(values.length).map((k) => `layer ${k + 1}`), range(values[0].length).map((k) => `head ${k + 1}`), caption, 1));
  }
}

function chart(lines, title) {
  const width = 640, height = 300, left = 46, right = 150, top = 14, bottom = 40, last = lines[0].values.length - 1;
  const x = (k) => left + ((width - left - right) * k) / Math.max(last, 1);
  const y = (value) => top + (height - top - bottom) * (1 - value);
  const drawn = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": title });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    drawn.append(svgElement("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), stroke: "currentColor", "stroke-opacity": 0.2 }),
      svgElement("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick}%`));
  }
  for (const k of range(last + 1)) drawn.append(svgElement("text", { x: x(k), y: height - bottom + 18, "text-anchor": "middle" }, k));
  drawn.append(svgElement("text", { x: x(last / 2), y: height - 4, "text-anchor": "middle" }, "layer (0: embeddings)"));
  lines.forEach(({ name, values, colour, dash, mark }, n) => {
    const points = values.map((value, k) => `${x(k)},${y(value)}`).join(" ");
    drawn.append(svgElement("polyline", { points, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }));
    values.forEach((value, k) => {
      const dot = svgElement("text", { x: x(k), y: y(value) + 4, "text-anchor": "middle" }, mark);
      dot.style.fill = colour; // not an attribute, which the page's policy forbids
      dot.append(svgElement("title", {}, `${name}, layer ${k}: ${percent(value)}`));
      drawn.append(dot);
    });
    const legend = svgElement("text", { x: width - right + 14, y: top + 14 + 20 * n }, `${mark} ${name}`);
    legend.style.fill = colour;
    drawn.append(legend);
  });
  return element("div", { className: "scroll", tabIndex: 0 }, drawn);
}

function probes() {
  const names = Object.keys(data.probes);
  if (!names.length) return;
  section("Layer probes", "A linear classifier on the states of each layer. In the control task every word type has a random label: what a probe scores there it has learned by heart, and selectivity is the difference (Hewitt and Liang 2019).");
  for (const name of names) {
    const one = data.probes[name];
    main.append(element("h3", {}, name),
      element("p", {}, `${one.labels.length} labels, ${one.train_words.toLocaleString("en")} trained on, ${one.test_words.toLocaleString("en")} scored; best layer: ${one.best_layer} with ${percent(one.accuracy[one.best_layer])}.`),
      chart([
        { name: "accuracy", values: one.accuracy, colour: "rgb(var(--blue))", dash: "none", mark: "●" },
        { name: "macro F1", values: one.macro_f1, colour: "rgb(var(--orange))", dash: "none", mark: "▲" },
        { name: "control task", values: one.control_accuracy, colour: "currentColor", dash: "6 4", mark: "○" },
        { name: "majority", values: one.accuracy.map(() => one.majority), colour: "currentColor", dash: "2 4", mark: "–" },
      ], name),
      heatTable(one.accuracy.map((value, k) => [value, one.macro_f1[k], one.control_accuracy[k], one.selectivity[k]]),
        one.accuracy.map((_, k) => (k ? `layer ${k}` : "embeddings")), ["accuracy", "macro F1", "control task", "selectivity"], "fractions", 1));
  }
}

function similarity() {
  if (!data.similarity) return;
  const { other, cka } = data.similarity;
  const names = (count) => range(count).map((k) => (k ? `layer ${k}` : "embeddings"));
  section("Similarity of layers", "Linear CKA: 1 where two layers hold the same up to rotation and scale. Where the diagonal falls, the models differ.");
  main.append(heatTable(cka, names(cka.length), names(cka[0].length), `rows: ${data.name}; columns: ${other}`, 1));
}

function attributions() {
  if (!data.attributions.some((one) => one)) return;
  section("Which tokens decided", "Integrated gradients on the token embeddings: + and a solid line speak for the answer, − and a dashed line against it; the numbers add up to the change of the output.");
  data.attributions.forEach((one, n) => {
    if (!one) return;
    const most = Math.max(...one.attributions.map(Math.abs), 1e-9);
    const tokens = one.tokens.map((token, k) => {
      const value = one.attributions[k], fraction = Math.abs(value) / most;
      const mark = fraction < 0.05 ? "" : value > 0 ? "for" : "against";
      return element("span", { className: mark, title: `${value.toFixed(4)}`, style: { background: tint(value > 0 ? "blue" : "orange", 0.45 * fraction) } },
        token + (mark ? ` ${signed(value)}` : ""));
    });
    main.append(element("h3", {}, `Text ${n + 1}: ${shortened(data.texts[n].texts.join(" | "), 80)}`),
      element("p", { className: one.is_complete ? "" : "warning" }, `${one.target}: from ${one.start.toFixed(3)} to ${one.end.toFixed(3)}; ${one.verdict}.`),
      element("p", { className: "tokens" }, ...tokens));
  });
}

function theme() {
  const button = element("button", { type: "button" }, "dark / light");
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "light" : "dark";
  });
  return button;
}

const facts = Object.entries(data.model).map(([name, value]) => `${name.replaceAll("_", " ")} ${value.toLocaleString("en")}`);
main.append(element("div", { className: "controls" }, element("span", { className: "note" }, facts.join(" · ")), theme()));
summary();
attributions();
attention();
statistics();
probes();
agreement();
similarity();
main.append(element("footer", { className: "note" }, "Made by kbert.inspect; figures.json beside this page has the numbers."));
