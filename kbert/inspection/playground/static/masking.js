/** Masked language model: which tokens are chosen, what they become, and what a model makes of them. */

import { pairForm, seedBox, slider, toggle, wholeNumber } from "./controls.js";
import { count, element, hint, note, percent, scrollable, short, table } from "./dom.js";
import { bars, kindMark, kindName, tokenText, truncationNote } from "./tokens.js";

function form(session) {
  const texts = pairForm(session);
  const rate = slider("Fraction of tokens that are chosen", { name: "mask_rate", value: 0.15, max: 0.99 });
  const mask = slider("… of these, replaced by [MASK]", { name: "mask_token_rate", value: 0.8 });
  const random = slider("… of these, replaced by a random token", { name: "random_token_rate", value: 0.1 });
  const rest = element("output", { class: "rest" });
  const showRest = () =>
    (rest.textContent = `… of these, kept as they are: ${Math.abs(1 - mask.value - random.value).toFixed(2)}`);
  // The three fractions make 1 together: the other one gives way.
  mask.input.addEventListener("input", () => {
    random.value = Math.min(random.value, Math.round(100 * (1 - mask.value)) / 100);
    showRest();
  });
  random.input.addEventListener("input", () => {
    mask.value = Math.min(mask.value, Math.round(100 * (1 - random.value)) / 100);
    showRest();
  });
  showRest();
  const wholeWord = toggle("Whole words: all pieces of a word together", { name: "whole_word" });
  const most = wholeNumber("At most so many", { name: "max_predictions", min: 1, optional: true, hint: "no limit" });
  const seed = seedBox();
  const restField = element("div", { class: "field" }, rest);
  return {
    nodes: [...texts.nodes, rate.node, mask.node, random.node, restField, wholeWord.node, most.node, seed.node],
    refresh: texts.refresh,
    body: () => ({
      ...texts.body(),
      mask_rate: rate.value,
      mask_token_rate: mask.value,
      random_token_rate: random.value,
      whole_word: wholeWord.value,
      seed: seed.value,
      max_predictions: most.value,
    }),
  };
}

/** The line that the model reads, with what was done to each chosen token. */
function line(tokens) {
  const spans = tokens.map((one) => {
    if (one.kind === "not chosen") return tokenText(one.token, one.segment);
    const read = one.token === one.corrupted ? one.token : [element("s", {}, one.token), " ", one.corrupted];
    const title = `position ${one.position}: ${kindName(one.kind)}`;
    const mark = element("span", { "aria-hidden": "true" }, kindMark(one.kind), " ");
    const [best] = one.predictions ?? [];
    const guess = best && `${best.token === one.label ? "✓" : "✗"} ${best.token} ${percent(best.probability)}`;
    const below = guess ? element("small", { class: "guess" }, guess) : null;
    const properties = { class: `token chosen segment-${one.segment}`, dataset: { kind: one.kind }, title };
    return element("span", properties, mark, read, below);
  });
  return element("p", { class: "tokens", "aria-label": "What the model reads" }, spans);
}

function summary({ counts, loss }) {
  const { chosen, candidates, masked, random, kept } = counts;
  const of = count(candidates, "candidate");
  const parts = `${chosen} of ${of} chosen: ${masked} [MASK], ${random} random, ${kept} kept.`;
  const mean = loss === null ? "" : ` Mean loss of these predictions: ${short(loss)}.`;
  return element("p", { class: "summary" }, parts, mean);
}

function row(one, withModel) {
  const chosen = one.kind !== "not chosen";
  const verdict = one.predictions?.length ? (one.predictions[0].token === one.label ? "✓" : "✗") : "";
  const guesses = one.predictions?.map(({ token, probability }) => [token, probability]);
  const prediction = guesses && [
    bars(guesses, { right: one.label, label: "Predictions" }),
    hint(`the original has ${percent(one.label_probability)}`),
  ];
  return element(
    "tr",
    { dataset: { kind: one.kind } },
    element("td", { class: "number" }, one.position),
    element("td", { dir: "auto" }, one.token),
    element("td", { dir: "auto" }, one.corrupted),
    element("td", {}, chosen ? `${kindMark(one.kind)} ${one.kind}` : ""),
    element("td", { dir: "auto" }, one.label ?? ""),
    withModel ? element("td", { class: verdict === "✓" ? "good" : "bad" }, verdict) : null,
    withModel ? element("td", {}, prediction) : null,
  );
}

function show(answer) {
  const withModel = answer.tokens.some((one) => one.predictions);
  const names = ["position", "original", "corrupted", "done", "label", ...(withModel ? ["right?", "predictions"] : [])];
  const rows = answer.tokens.map((one) => row(one, withModel));
  const positions = table(names, rows);
  positions.classList.add("positions");
  const only = element("input", { type: "checkbox", name: "chosen_only", checked: true });
  const toggled = () => positions.classList.toggle("chosen-only", only.checked);
  only.addEventListener("change", toggled);
  toggled();
  return [
    line(answer.tokens),
    summary(answer),
    truncationNote(answer),
    answer.note ? note(answer.note) : null,
    element("label", { class: "toggle" }, only, " only the chosen positions"),
    scrollable("Positions", positions),
  ];
}

export default {
  name: "masking",
  title: "Masking",
  what: "Some tokens are chosen: most become [MASK], some another token, some stay; the model has to restore them.",
  source: "the paper, section 3.1, task 1, and appendix A.1",
  needs: "",
  form,
  show,
};
