/** Input representation: token, segment and position of each token, and the three embeddings that are added. */

import { pairForm } from "./controls.js";
import { element, hint, note, short, svg } from "./dom.js";
import { tokenButtons, truncationNote } from "./tokens.js";
import { errorNote } from "./view_panel.js";

const HEIGHT = 40; // of a strip
const PARTS = [
  ["token", "token embedding", ""],
  ["segment", "segment embedding", "+ "],
  ["position", "position embedding", "+ "],
  ["sum", "sum", "= "],
  ["normalized", "after LayerNorm", "→ "],
];

/**
 * A vector as a strip of bars, negative ones below the line, so that signs differ without colours too.
 *
 * `largest` is the absolute value that fills the strip; pointing at a bar names its number.
 */
function strip(vector, largest, label) {
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
    const place = Math.floor(((event.clientX - box.left) / box.width) * vector.length);
    const index = Math.min(vector.length - 1, Math.max(0, place));
    output.textContent = `dimension ${index}: ${vector[index].toFixed(4)}`;
  });
  drawing.addEventListener("pointerleave", () => (output.textContent = "\u00a0"));
  return element("div", {}, drawing, output);
}

const largestOf = (vectors) => Math.max(...vectors.flat().map(Math.abs), 1e-9);

function strips({ vectors, norms }) {
  const { normalized, ...added } = vectors;
  const scales = { added: largestOf(Object.values(added)), normalized: largestOf([normalized]) };
  const rows = PARTS.map(([name, title, sign]) =>
    element(
      "figure",
      { class: "strip", dataset: { part: name } },
      element("figcaption", {}, element("b", {}, sign, title), ` norm ${short(norms[name])}`),
      strip(vectors[name], scales[name] ?? scales.added, `${title}: ${vectors[name].length} numbers`),
    ),
  );
  const words =
    "Each bar is a number of the vector, above the line if positive, below if negative. The embeddings and their sum " +
    `have one scale (highest bar: ${short(scales.added)}), LayerNorm's output its own (${short(scales.normalized)}).`;
  return [...rows, hint(words)];
}

function details({ position, token, id, segment }) {
  const cells = { position, token, id, segment: `${segment} (${segment ? "B" : "A"})` };
  const items = Object.entries(cells).map(([name, value]) => [
    element("dt", {}, name),
    element("dd", { dir: "auto" }, value),
  ]);
  return element("dl", { class: "facts" }, items);
}

function show(answer, context) {
  const place = element("div", { class: "strips", "aria-live": "polite" });
  let running = null;

  async function choose(index) {
    const token = answer.tokens[index];
    running?.abort();
    const mine = (running = new AbortController());
    place.replaceChildren(details(token));
    if (!answer.vectors_available) {
      place.append(note("Without a model there are no embeddings: tokens and ids only."));
      return;
    }
    try {
      const more = await context.ask({ position: token.position }, mine.signal);
      if (mine.signal.aborted) return;
      place.replaceChildren(details(token), ...strips(more));
      place.querySelector("[data-part=sum]").scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (!mine.signal.aborted) place.replaceChildren(details(token), errorNote(error));
    }
  }

  const below = ({ id, segment, position }) => `id ${id}\nsegment ${segment ? "B" : "A"}\nposition ${position}`;
  const buttons = tokenButtons(answer.tokens, "Tokens: choose one", choose, below);
  const words = "Choose a token to see its vectors. The line below a token is solid for segment A, dashed for B.";
  return [truncationNote(answer), buttons.node, hint(words), place];
}

export default {
  name: "input_representation",
  title: "Input representation",
  tab: "Input",
  what: "What enters the encoder is a sum of three embeddings: of the token, of its segment and of its position.",
  source: "the paper, section 3, figure 2",
  needs: "",
  form: pairForm,
  show,
};
