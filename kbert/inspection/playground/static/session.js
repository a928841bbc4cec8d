/** What the views share: the models, which of them are chosen, and what was typed. */

import { element, hint } from "./dom.js";

const WITHOUT_MODEL = ["masking", "next_sentence", "input_representation"];

/** The state of the page; nothing of it is kept by the server. */
export class Session {
  constructor({ models, vocabulary_default: vocabularyDefault }) {
    this.models = models;
    this.vocabularyDefault = vocabularyDefault;
    this.texts = new Map();
    const usable = models.find((model) => model.views.length);
    this.names = new Set(usable ? [usable.name] : []);
  }

  /** Takes over a new list. A chosen model that is no longer in it stays: it may still be in memory. */
  update(models) {
    const listed = new Set(models.map((model) => model.name));
    const kept = this.chosen().filter((model) => !listed.has(model.name));
    const note = "Its files are gone; it answers as long as it is in memory.";
    this.models = [...models, ...kept.map((model) => ({ ...model, note }))];
  }

  /** The chosen models, in the order of the list. */
  chosen() {
    return this.models.filter((model) => this.names.has(model.name));
  }

  /** Whether a model, or null for none, offers a view. */
  can(view, model) {
    return (model ? model.views : WITHOUT_MODEL).includes(view);
  }
}

/** The list from which models are chosen, several side by side; `changed` is called after each change. */
export function modelChooser(session, changed) {
  if (!session.models.length) {
    const words = session.vocabularyDefault
      ? "No model was given. The vocabulary was learned from the prose of this installation."
      : "No model was given; the vocabulary that was given is used.";
    return element("p", { class: "note models" }, words, " Start the program with --model DIR to see predictions.");
  }
  const rows = session.models.map((model) => {
    const checked = session.names.has(model.name);
    const box = element("input", { type: "checkbox", name: "model", value: model.name, checked });
    box.addEventListener("change", () => {
      if (box.checked) session.names.add(model.name);
      else session.names.delete(model.name);
      changed();
    });
    const about = element("span", { class: "hint" }, describe(model));
    const label = element("label", {}, box, " ", element("b", {}, model.name), " ", about);
    return element("li", {}, label, model.note ? hint(model.note) : null);
  });
  const legend = element("legend", {}, "Models, side by side");
  return element("fieldset", { class: "models" }, legend, element("ul", {}, rows));
}

function describe(model) {
  const parts = [model.kind === "saved_model" ? "SavedModel" : "kbert directory", model.task];
  if (model.layers) parts.push(`${model.layers} layers × ${model.heads} heads, ${model.hidden_dim} wide`);
  return parts.filter(Boolean).join(", ");
}
