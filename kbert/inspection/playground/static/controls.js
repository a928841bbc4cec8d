/** Labelled form controls. Each has a `node` for the page and a `value`; the form hears their `input` events. */

import { element, uniqueId } from "./dom.js";
import { TEXT, TEXT_PAIR } from "./sample_texts.js";

/** A box for text; `shared` (a Map) keeps what was typed under `name` for the other views that have such a box. */
export function textBox(label, { name, rows = 2, value, shared = null }) {
  const id = uniqueId(name);
  const area = element("textarea", { id, name, rows, spellcheck: "false" });
  area.value = shared?.get(name) ?? value;
  area.addEventListener("input", () => shared?.set(name, area.value));
  return {
    node: element("div", { class: "field wide" }, element("label", { for: id }, label), area),
    area,
    get value() {
      return area.value;
    },
    /** Takes over what another view was given in the meantime. */
    refresh() {
      if (shared?.has(name)) area.value = shared.get(name);
    },
  };
}

/** A slider with its value beside it. */
export function slider(label, { name, min = 0, max = 1, step = 0.01, value, format = (number) => number.toFixed(2) }) {
  const id = uniqueId(name);
  const input = element("input", { id, name, type: "range", min, max, step });
  input.value = value;
  const output = element("output", { for: id });
  const show = () => {
    output.textContent = format(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", show);
  show();
  return {
    node: element("div", { class: "field" }, element("label", { for: id }, label), input, output),
    input,
    get value() {
      return input.valueAsNumber;
    },
    set value(number) {
      input.value = number;
      show();
    },
  };
}

/** A whole number; an empty box is null where `optional`. */
export function wholeNumber(label, { name, min = 0, max = null, value = "", optional = false, hint = "" }) {
  const id = uniqueId(name);
  const input = element("input", { id, name, type: "number", min, max, step: 1, placeholder: hint });
  input.value = value;
  return {
    node: element("div", { class: "field" }, element("label", { for: id }, label), input),
    input,
    get value() {
      return Number.isNaN(input.valueAsNumber) ? (optional ? null : min) : Math.trunc(input.valueAsNumber);
    },
    set value(number) {
      input.value = number;
    },
  };
}

/** A seed with a button that takes the next one. */
export function seedBox() {
  const seed = wholeNumber("Seed", { name: "seed", value: 0 });
  const button = element("button", { type: "button", name: "resample" }, "Resample");
  button.addEventListener("click", () => {
    seed.value = seed.value + 1;
    seed.input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  seed.node.append(button);
  return seed;
}

/** On or off. */
export function toggle(label, { name }) {
  const input = element("input", { type: "checkbox", name });
  return {
    node: element("div", { class: "field" }, element("label", { class: "toggle" }, input, " ", label)),
    get value() {
      return input.checked;
    },
  };
}

/** One of several; `choices` is a list of [value, label]. */
export function choice(label, { name, choices, value }) {
  const id = uniqueId(name);
  const options = choices.map(([key, text]) => element("option", { value: key, selected: key === value }, text));
  const select = element("select", { id, name }, options);
  return {
    node: element("div", { class: "field" }, element("label", { for: id }, label), select),
    select,
    get value() {
      return select.value;
    },
  };
}

/** One of several, all in sight; `choices` is a list of [value, label]. */
export function radios(label, { name, choices, value }) {
  const inputs = choices.map(([key]) => element("input", { type: "radio", name, value: key, checked: key === value }));
  const labels = choices.map(([, text], index) => element("label", { class: "toggle" }, inputs[index], " ", text));
  return {
    node: element("fieldset", { class: "field" }, element("legend", {}, label), labels),
    get value() {
      return inputs.find((input) => input.checked).value;
    },
  };
}

/** The form of a text and a second one, which may be empty; `more` is what else its question says. */
export function pairForm(session, { label = "Second text (may be empty)", more = {} } = {}) {
  const shared = session.texts;
  const text = textBox("Text", { name: "text", value: TEXT, shared });
  const pair = textBox(label, { name: "text_pair", value: TEXT_PAIR, shared });
  return {
    nodes: [text.node, pair.node],
    refresh: () => [text, pair].forEach((box) => box.refresh()),
    body: () => ({ text: text.value, text_pair: pair.value.trim() ? pair.value : null, ...more }),
  };
}
