/** Question answering: the answer is a span of the context, marked where it stands. */

import { textBox } from "./controls.js";
import { element, rovingFocus, short } from "./dom.js";
import { CONTEXT, QUESTION } from "./sample_texts.js";
import { markedText } from "./tokens.js";

function form() {
  const question = textBox("Question", { name: "question", rows: 1, value: QUESTION });
  const context = textBox("Context", { name: "context", rows: 5, value: CONTEXT });
  return { nodes: [question.node, context.node], body: () => ({ question: question.value, context: context.value }) };
}

function show(answer, { body }) {
  const place = element("div", {});
  const mark = ({ start, end }) => // a SavedModel gives no place of the others
    place.replaceChildren(markedText(body.context, start === null || start < 0 ? [] : [{ start, end }]));
  mark(answer);
  const buttons = answer.candidates.map((candidate, index) => {
    const name = candidate.answer === "" ? "(no answer)" : candidate.answer;
    const properties = { type: "button", class: "candidate", "aria-pressed": String(index === 0), dir: "auto" };
    const button = element("button", properties, name, " ", element("span", { class: "hint" }, short(candidate.score)));
    button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      mark(candidate);
    });
    return button;
  });
  const list = element("div", { class: "candidates", role: "group", "aria-label": "Candidates" }, buttons);
  if (buttons.length) rovingFocus(list, buttons);
  const nothing = ` The score of “no answer” is ${short(answer.null_score)}.`;
  const said =
    answer.answer === ""
      ? "The model says that the context does not answer this."
      : ["Answer: ", element("b", { dir: "auto" }, answer.answer)];
  return [
    element("p", { class: "summary" }, said, ` (score ${short(answer.score)}).`, nothing),
    place,
    element("h4", {}, "Candidates: choose one to see where it stands"),
    list,
  ];
}

export default {
  name: "question_answering",
  title: "Question answering",
  tab: "Questions",
  what: "Every token of the context is scored as start and as end of the answer; the best span is the answer.",
  source: "the paper, sections 4.2 and 4.3",
  needs: "A model fine-tuned for it does (task span).",
  form,
  show,
};
