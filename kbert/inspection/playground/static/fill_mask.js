/** Fill-mask: what a masked language model proposes for each [MASK] of a text. */

import { textBox, wholeNumber } from "./controls.js";
import { element, note } from "./dom.js";
import { WITH_MASKS } from "./sample_texts.js";
import { bars, truncationNote } from "./tokens.js";

function form() {
  const text = textBox("Text with [MASK]", { name: "masked_text", value: WITH_MASKS });
  const top = wholeNumber("Proposals for each", { name: "top", min: 1, max: 50, value: 5 });
  const insert = element("button", { type: "button", name: "insert_mask" }, "Insert [MASK]");
  insert.addEventListener("click", () => {
    const { area } = text;
    area.setRangeText("[MASK]", area.selectionStart, area.selectionEnd, "end");
    area.dispatchEvent(new Event("input", { bubbles: true }));
    area.focus();
  });
  return {
    nodes: [text.node, element("div", { class: "field" }, insert), top.node],
    body: () => ({ text: text.value, top: top.value }),
  };
}

function show(answer) {
  if (!answer.fills.length)
    return [note("The text has no [MASK]: put one where a word shall be proposed.")];
  const lists = answer.fills.map(({ position, candidates }, number) => {
    const rows = candidates.map(({ token, probability }) => [token, probability]);
    const place = position === null ? "" : `, at position ${position}`; // a SavedModel does not say it
    const title = `[MASK] ${number + 1}${place}`;
    return element("section", { class: "fill" }, element("h4", {}, title), bars(rows, { label: title }));
  });
  const texts = answer.texts.map((text) => element("p", { class: "marked", dir: "auto" }, text));
  return [truncationNote(answer), element("h4", {}, "With the best proposals"), texts, lists];
}

export default {
  name: "fill_mask",
  title: "Fill-mask",
  what: "The model proposes tokens for each [MASK], all masks at once and each by itself.",
  source: "the paper, section 3.1, task 1",
  needs: "A model with the head of the masked language model does (task pretraining or masked_lm).",
  form,
  show,
};
