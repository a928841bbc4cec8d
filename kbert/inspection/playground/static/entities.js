/** Entities: a tag for each word, and the entities that the tags make, marked in the text. */

import { textBox } from "./controls.js";
import { details, element, note, percent, scrollable, table, tableRow } from "./dom.js";
import { WITH_ENTITIES } from "./sample_texts.js";
import { markedText } from "./tokens.js";

function form() {
  const text = textBox("Text", { name: "entity_text", rows: 3, value: WITH_ENTITIES });
  return { nodes: [text.node], body: () => ({ text: text.value }) };
}

function show(answer, { body }) {
  const types = [...new Set(answer.entities.map(({ type }) => type))].sort();
  const spans = answer.entities.map(({ start, end, type }) => ({ start, end, label: type, kind: types.indexOf(type) }));
  const rows = answer.entities.map(({ text, type, score }) =>
    tableRow(text, type, element("td", { class: "number" }, percent(score))),
  );
  const words = answer.words.map((word, index) => tableRow(word, answer.tags[index]));
  return [
    markedText(body.text, spans),
    rows.length ? scrollable("Entities", table(["entity", "type", "score"], rows)) : note("No entity was found."),
    details("The tag of each word", scrollable("Tags", table(["word", "tag"], words))),
  ];
}

export default {
  name: "entities",
  title: "Entities",
  what: "Each word gets the tag of its first piece; tags such as B-PER and I-PER make entities.",
  source: "the paper, section 5.3",
  needs: "A model fine-tuned for it does (task tagging).",
  form,
  show,
};
