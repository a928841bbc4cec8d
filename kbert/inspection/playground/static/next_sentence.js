/** Next sentence prediction: how a pair and its label are made from a document, and what a model says of them. */

import { radios, seedBox, slider, textBox } from "./controls.js";
import { count, element, hint, percent, scrollable } from "./dom.js";
import { DOCUMENT, OTHER_DOCUMENT } from "./sample_texts.js";
import { tokenText } from "./tokens.js";

const MOST = 200; // sentences of a document that are listed

function form(session) {
  const shared = session.texts;
  const text = textBox("Document, of which A is the beginning", { name: "document", rows: 9, value: DOCUMENT, shared });
  const other = textBox("Another document, for a B that does not follow", {
    name: "other",
    rows: 9,
    value: OTHER_DOCUMENT,
    shared,
  });
  const label = radios("Label, with the same A", {
    name: "label",
    choices: [
      ["", "drawn by the paper's rule"],
      ["IsNext", "→ IsNext"],
      ["NotNext", "⇄ NotNext"],
    ],
    value: "",
  });
  const length = slider("Longest sequence, in tokens", {
    name: "max_length",
    min: 8,
    max: 512,
    step: 1,
    value: 64,
    format: String,
  });
  const shortRate = slider("Fraction of shorter sequences", { name: "short_rate", value: 0.1 });
  const seed = seedBox();
  return {
    nodes: [text, other, label, length, shortRate, seed].map((part) => part.node),
    refresh: () => [text, other].forEach((box) => box.refresh()),
    body: () => ({
      document: text.value,
      other: other.value,
      label: label.value || null,
      seed: seed.value,
      max_length: length.value,
      short_rate: shortRate.value,
    }),
  };
}

function documents({ sentences, pair }) {
  const used = (document, sentence) => {
    if (document === 0 && pair.first.includes(sentence)) return "A";
    return pair.second.document === document && pair.second.sentences.includes(sentence) ? "B" : "";
  };
  return sentences.map((list, number) => {
    const items = list.slice(0, MOST).map((sentence, index) => {
      const part = used(number, index);
      const letter = element("b", { class: "part" }, part);
      return element("li", { class: part && `part-${part}`, dir: "auto" }, letter, part ? " " : null, sentence);
    });
    const more = list.length > MOST ? hint(`… and ${count(list.length - MOST, "sentence")} more`) : null;
    const name = number === 0 ? "The document" : "Another document";
    return element(
      "details",
      { open: true },
      element("summary", {}, `${name}: ${count(list.length, "sentence")}`),
      element("ol", { start: 0 }, items),
      more,
    );
  });
}

function dropped({ front, back }) {
  if (!front.length && !back.length) return hint("Nothing had to be truncated.");
  return Object.entries({ front, back }).map(([name, tokens]) => {
    const words = tokens.map(({ token }) => [element("s", {}, token), " "]);
    return tokens.length ? element("p", {}, `Truncated at the ${name}: `, words) : null;
  });
}

function verdict(answer) {
  if (!answer.verdict) return null;
  const probability = answer.verdict.is_next;
  const said = probability >= 0.5 ? "IsNext" : "NotNext";
  const right = said === answer.pair.label;
  const mark = element("b", { class: right ? "good" : "bad" }, right ? "✓ " : "✗ ");
  return element("p", { class: "verdict" }, mark, `The model says ${said}: ${percent(probability)} for IsNext.`);
}

function show(answer) {
  const { pair } = answer;
  const steps = answer.steps.map((step) => element("li", {}, step));
  const tokens = pair.tokens.map(({ token, segment }) => tokenText(token, segment));
  return [
    element("p", { class: "label" }, "Label: ", element("b", {}, pair.label === "IsNext" ? "→ IsNext" : "⇄ NotNext")),
    verdict(answer),
    element("p", { class: "tokens", "aria-label": "The pair" }, tokens),
    dropped(pair.dropped),
    element("h4", {}, "How it came about"),
    element("ol", { class: "steps" }, steps),
    scrollable("Documents", documents(answer)),
  ];
}

export default {
  name: "next_sentence",
  title: "Next sentence",
  what: "A and B are cut from a document; in about half of the pairs B is from elsewhere, and the model has to tell.",
  source: "the paper, section 3.1, task 2, and appendix A.2",
  needs: "A model with the head of next sentence prediction gives a verdict.",
  form,
  show,
};
