/** Classification and regression: labels with their probabilities, or a score; of an unknown task the plain answer. */

import { pairForm } from "./controls.js";
import { element, short } from "./dom.js";
import { bars } from "./tokens.js";

const form = (session) => pairForm(session, { label: "Second text, where the model takes pairs" });

function show(answer) {
  if (answer.answer !== undefined) return [element("pre", { dir: "auto" }, JSON.stringify(answer.answer, null, 2))];
  if (answer.label === undefined)
    return [element("p", { class: "summary" }, "Score: ", element("b", {}, short(answer.score)))];
  const rows = answer.probabilities.map(({ label, probability }) => [label, probability]);
  return [
    element("p", { class: "summary" }, "Label: ", element("b", { dir: "auto" }, answer.label)),
    bars(rows, { label: "Labels" }),
  ];
}

export default {
  name: "classification",
  title: "Classification",
  what: "The hidden state of [CLS] decides the label of a text or pair, or its score.",
  source: "the paper, section 4.1",
  needs: "A model fine-tuned for it does (task classification or regression), or one of a task without a view.",
  form,
  show,
};
