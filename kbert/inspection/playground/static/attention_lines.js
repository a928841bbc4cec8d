/** One head: the tokens that look on the left, the tokens that are looked at on the right, weights as lines between. */

import { element, percent, rovingFocus, svg } from "./dom.js";

const ROW = 26; // pixels
const LEAST = 0.03; // a weight below this has no line where all tokens are drawn
const MOST = 128; // tokens whose lines are drawn all at once

function lines(probabilities, chosen) {
  const parts = [];
  probabilities.forEach((row, from) => {
    if (chosen !== null && chosen !== from) return;
    row.forEach((weight, to) => {
      if (weight < (chosen === null ? LEAST : 0.001)) return;
      const width = 0.5 + 4 * weight;
      const [y1, y2] = [(from + 0.5) * ROW, (to + 0.5) * ROW];
      parts.push(
        svg("line", {
          x1: 0,
          y1,
          x2: 100,
          y2,
          "stroke-opacity": Math.min(1, 0.1 + weight).toFixed(3),
          "stroke-width": width.toFixed(2),
        }),
      );
    });
  });
  return parts;
}

/**
 * The drawing. `pinned` is the index of the token that was clicked, or null; `pin(index)` hears of another.
 *
 * Pointing at a token, or focusing it, shows its weights alone, as lines and as numbers; clicking it keeps them.
 */
export function drawAttention(tokens, probabilities, pinned, pin) {
  const height = tokens.length * ROW;
  const drawing = svg("svg", {
    viewBox: `0 0 100 ${height}`,
    preserveAspectRatio: "none",
    height,
    class: "lines",
    "aria-hidden": "true",
  });
  const weights = tokens.map(() => element("span", { class: "weight" }));
  const right = tokens.map(({ token }, index) =>
    element(
      "li",
      { style: { "--share": "0" } },
      element("span", { class: "name", dir: "auto" }, token),
      weights[index],
    ),
  );
  const buttons = tokens.map(({ token, position }) =>
    element(
      "button",
      { type: "button", class: "query", "aria-pressed": "false", dir: "auto", dataset: { position } },
      token,
    ),
  );
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
