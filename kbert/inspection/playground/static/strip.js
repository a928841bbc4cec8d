/** A vector as a strip of bars: above the line positive, below negative, so that signs differ without colours too. */

import { element, svg } from "./dom.js";

const HEIGHT = 40;

/** `largest` is the absolute value that fills the strip; pointing at a bar names its number. */
export function strip(vector, largest, label) {
  const half = HEIGHT / 2;
  const path = { positive: "", negative: "" };
  vector.forEach((value, index) => {
    const height = Math.min(1, Math.abs(value) / largest) * half;
    const [name, top] = value >= 0 ? ["positive", half - height] : ["negative", half];
    path[name] += `M${index} ${top.toFixed(2)}h1v${height.toFixed(2)}h-1z`;
  });
  const drawing = svg(
    "svg",
    { viewBox: `0 0 ${vector.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("path", { class: "positive", d: path.positive }),
    svg("path", { class: "negative", d: path.negative }),
    svg("line", { class: "axis", x1: 0, x2: vector.length, y1: half, y2: half }),
  );
  const output = element("output", { class: "hint" }, "\u00a0");
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const index = Math.min(
      vector.length - 1,
      Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * vector.length)),
    );
    output.textContent = `dimension ${index}: ${vector[index].toFixed(4)}`;
  });
  drawing.addEventListener("pointerleave", () => (output.textContent = "\u00a0"));
  return element("div", {}, drawing, output);
}
