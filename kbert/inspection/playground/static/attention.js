/** Attention and layers: every head's habits, one head's weights, and how long the hidden states are. */

import { choice, pairForm } from "./controls.js";
import { details, element, percent, rovingFocus, scrollable, short, svg, table } from "./dom.js";
import { truncationNote } from "./tokens.js";
import { errorNote } from "./view_panel.js";

const ROW = 26; // pixels
const LEAST = 0.03; // a weight below this has no line where all tokens are drawn
const MOST = 128; // tokens whose lines are drawn all at once
const STATISTICS = [
  ["entropy", "entropy: how widely a head looks, in nats"],
  ["distance", "distance: how far away it looks, in tokens"],
  ["to_cls", "fraction that goes to [CLS]"],
  ["to_sep", "fraction that goes to [SEP]"],
  ["next", "fraction that goes to the next token"],
  ["previous", "fraction that goes to the previous token"],
];

const form = (session) => pairForm(session, { more: { layer: 0, head: 0 } });

/** A button for each head, one row a layer, and one for the mean of each layer's heads. */
function headGrid(answer, choose) {
  const { layers, heads, statistics } = answer;
  const order = Array.from({ length: layers }, (_, number) => layers - 1 - number); // the lowest layer at the bottom
  const buttons = new Map();
  const press = (layer, head) => {
    buttons.forEach((button, key) => button.setAttribute("aria-pressed", String(key === `${layer} ${head}`)));
    choose(layer, head);
  };
  const cell = (layer, head) => {
    const name = `layer ${layer + 1}, ${head === null ? "mean of its heads" : `head ${head + 1}`}`;
    const dataset = { layer, head: head ?? "mean", name };
    const button = element("button", { type: "button", class: "head", "aria-pressed": "false", dataset });
    button.addEventListener("click", () => press(layer, head));
    buttons.set(`${layer} ${head}`, button);
    return element("td", {}, button);
  };
  const numbers = Array.from({ length: heads }, (_, head) => head);
  const rows = order.map((layer) => {
    const cells = [...numbers, null].map((head) => cell(layer, head));
    return element("tr", {}, element("th", { scope: "row" }, `layer ${layer + 1}`), cells);
  });
  const names = ["", ...numbers.map((head) => `head ${head + 1}`), "mean"];
  const grid = table(names, rows);
  grid.classList.add("heads");

  function fill(statistic) {
    const all = statistics.flat().map((head) => head[statistic]);
    const largest = Math.max(...all, 1e-9);
    for (const button of buttons.values()) {
      const { layer, head, name } = button.dataset;
      const ofLayer = statistics[layer].map((one) => one[statistic]);
      const value = head === "mean" ? ofLayer.reduce((sum, one) => sum + one, 0) / heads : ofLayer[head];
      button.textContent = value.toFixed(2);
      button.style.setProperty("--share", (value / largest).toFixed(3));
      button.setAttribute("aria-label", `${name}: ${statistic} ${value.toFixed(2)}`);
    }
  }
  rovingFocus(grid, [...buttons.values()], heads + 1);
  return { node: scrollable("Layers and heads", grid), fill, press };
}

function lines(probabilities, chosen) {
  const parts = [];
  probabilities.forEach((row, from) => {
    if (chosen !== null && chosen !== from) return;
    row.forEach((weight, to) => {
      if (weight < (chosen === null ? LEAST : 0.001)) return;
      const ends = { x1: 0, y1: (from + 0.5) * ROW, x2: 100, y2: (to + 0.5) * ROW };
      const stroke = { "stroke-opacity": Math.min(1, 0.1 + weight).toFixed(3), "stroke-width": 0.5 + 4 * weight };
      parts.push(svg("line", { ...ends, ...stroke }));
    });
  });
  return parts;
}

/**
 * One head: the tokens that look on the left, those that are looked at on the right, weights as lines between.
 *
 * `pinned` is the index of the token that was clicked, or null; `pin(index)` hears of another.
 *
 * Pointing at a token, or focusing it, shows its weights alone, as lines and as numbers; clicking it keeps them.
 */
function drawAttention(tokens, probabilities, pinned, pin) {
  const height = tokens.length * ROW;
  const place = { viewBox: `0 0 100 ${height}`, height, preserveAspectRatio: "none" };
  const drawing = svg("svg", { class: "lines", "aria-hidden": "true", ...place });
  const weights = tokens.map(() => element("span", { class: "weight" }));
  const right = tokens.map(({ token }, index) => {
    const name = element("span", { class: "name", dir: "auto" }, token);
    return element("li", { style: { "--share": "0" } }, name, weights[index]);
  });
  const buttons = tokens.map(({ token, position }) => {
    const properties = { type: "button", class: "query", "aria-pressed": "false", dir: "auto", dataset: { position } };
    return element("button", properties, token);
  });
  const words = element("p", { class: "hint", role: "status" });

  function show(index) {
    const tooMany = index === null && tokens.length > MOST;
    drawing.replaceChildren(...(tooMany ? [] : lines(probabilities, index)));
    buttons.forEach((button, one) => button.classList.toggle("looking", one === index));
    right.forEach((item, to) => {
      const weight = index === null ? 0 : probabilities[index][to];
      item.style.setProperty("--share", weight.toFixed(3));
      weights[to].textContent = index === null ? "" : percent(weight);
    });
    if (index === null) {
      words.textContent = tooMany
        ? "Point at a token on the left to see where it looks; so many tokens are not drawn all at once."
        : `Lines are weights of at least ${percent(LEAST)}. Point at a token on the left, or go there with the keys.`;
      return;
    }
    const most = Math.max(...probabilities[index]);
    const { token, position } = tokens[probabilities[index].indexOf(most)];
    words.textContent = `“${tokens[index].token}” looks most at “${token}” (position ${position}): ${percent(most)}.`;
  }

  buttons.forEach((button, index) => {
    button.addEventListener("pointerenter", () => show(index));
    button.addEventListener("pointerleave", () => show(pinned));
    button.addEventListener("focus", () => show(index));
    button.addEventListener("blur", () => show(pinned));
    button.addEventListener("click", () => {
      pinned = pinned === index ? null : index;
      pin(pinned);
      buttons.forEach((one, number) => one.setAttribute("aria-pressed", String(number === pinned)));
      show(pinned);
    });
  });
  if (pinned !== null) buttons[pinned]?.setAttribute("aria-pressed", "true");
  show(pinned);
  const left = element("div", { class: "queries", role: "group", "aria-label": "Tokens that look" }, buttons);
  if (buttons.length) rovingFocus(left, buttons);
  const keys = element("ul", { class: "keys", "aria-label": "Tokens that are looked at" }, right);
  return element("div", {}, words, element("div", { class: "attention" }, left, drawing, keys));
}

/** Norms of the hidden states: a row for each layer, the embeddings at the bottom. */
function hiddenNorms(answer) {
  const norms = answer.hidden_norms;
  const largest = Math.max(...norms.flat(), 1e-9);
  const rows = norms
    .map((row, layer) => {
      const cells = row.map((norm) =>
        element("td", { class: "heat number", style: { "--share": (norm / largest).toFixed(3) } }, short(norm)),
      );
      return element("tr", {}, element("th", { scope: "row" }, layer ? `layer ${layer}` : "embeddings"), cells);
    })
    .reverse();
  const names = ["", ...answer.tokens.map(({ token }) => token)];
  return details("Norms of the hidden states, layer by layer", scrollable("Norms", table(names, rows)));
}

function show(answer, context) {
  const place = element("div", { class: "attention-place" });
  const title = element("h4", { "aria-live": "polite" });
  let running = null;
  let looked = null; // the token that is pinned, kept from head to head

  function draw(probabilities) {
    const drawing = drawAttention(answer.tokens, probabilities, looked, (index) => (looked = index));
    place.replaceChildren(drawing);
  }

  async function choose(layer, head) {
    title.textContent = `Layer ${layer + 1}, ${head === null ? "mean of its heads" : `head ${head + 1}`}`;
    running?.abort();
    const mine = (running = new AbortController());
    try {
      const more = await context.ask({ layer, head }, mine.signal);
      if (!mine.signal.aborted) draw(more.probabilities);
    } catch (error) {
      if (!mine.signal.aborted) place.replaceChildren(errorNote(error));
    }
  }

  const grid = headGrid(answer, choose);
  const options = { name: "statistic", choices: STATISTICS, value: "entropy" };
  const statistic = choice("What the numbers of the heads are", options);
  statistic.select.addEventListener("change", () => grid.fill(statistic.value));
  grid.fill(statistic.value);
  grid.node.querySelector('[data-layer="0"][data-head="0"]')?.setAttribute("aria-pressed", "true");
  title.textContent = "Layer 1, head 1";
  draw(answer.probabilities);
  return [truncationNote(answer), statistic.node, grid.node, title, place, hiddenNorms(answer)];
}

export default {
  name: "attention",
  title: "Attention and layers",
  tab: "Attention",
  what: "In every layer each head lets a token gather from the others: choose a head, and point at a token.",
  source: "the paper, section 3, model architecture; Vaswani et al. 2017, section 3.2",
  needs: "A kbert directory shows its attention; a SavedModel gives only answers.",
  form,
  show,
};
