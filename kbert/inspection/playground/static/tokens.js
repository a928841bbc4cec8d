/** Tokens and marked text. Positions in a text are code points, which are not JavaScript's indices. */

import { count, element, note, percent, rovingFocus } from "./dom.js";

const WORDS = { "[MASK]": "replaced by [MASK]", random: "replaced by a random token", kept: "chosen, but kept" };
const MARKS = { "[MASK]": "■", random: "⇄", kept: "=" };

/** What the kinds of masked tokens are called and the mark that each has besides its colour. */
export const kindName = (kind) => WORDS[kind] ?? kind;
export const kindMark = (kind) => MARKS[kind] ?? "";

/** One token; its segment shows as the line below it, solid for A and dashed for B. */
export function tokenText(token, segment) {
  return element("span", { class: `token segment-${segment}`, dir: "auto" }, token);
}

/** Buttons for all tokens, `below(token)` in small letters under each; `chosen(index)` hears which one is pressed. */
export function tokenButtons(tokens, label, chosen, below) {
  const buttons = tokens.map((one) => {
    const properties = { type: "button", "aria-pressed": "false", dataset: { position: one.position } };
    const details = element("small", {}, below(one));
    return element("button", { class: `token segment-${one.segment}`, ...properties }, one.token, details);
  });
  buttons.forEach((button, index) =>
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      chosen(index);
    }),
  );
  const node = element("div", { class: "tokens", role: "group", "aria-label": label }, buttons);
  if (buttons.length) rovingFocus(node, buttons);
  return { node, buttons };
}

/**
 * A text in which spans are marked.
 *
 * `spans` is a list of {start, end, label, kind}, half-open in code points; of two that overlap the first stays.
 */
export function markedText(text, spans) {
  const points = Array.from(text);
  const nodes = [];
  let done = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start < done || span.end <= span.start) continue;
    nodes.push(points.slice(done, span.start).join(""));
    const label = span.label ? element("span", { class: "mark-label" }, ` ${span.label}`) : null;
    const inside = points.slice(span.start, span.end).join("");
    nodes.push(element("mark", { class: span.kind === undefined ? null : `kind-${span.kind % 6}` }, inside, label));
    done = span.end;
  }
  nodes.push(points.slice(done).join(""));
  return element("p", { class: "marked", dir: "auto" }, nodes);
}

/** A list of [name, probability] as bars; the numbers stand beside them. */
export function bars(rows, { right = null, label }) {
  const items = rows.map(([name, probability]) => {
    const mark = right === null ? null : name === right ? "✓ " : "";
    const bar = element("span", { class: "bar", style: { width: `${100 * Math.max(0, Math.min(1, probability))}%` } });
    return element(
      "li",
      { class: right !== null && name === right ? "right" : null },
      element("span", { class: "bar-name", dir: "auto" }, mark, name),
      element("span", { class: "bar-track", "aria-hidden": "true" }, bar),
      element("span", { class: "bar-value" }, percent(probability)),
    );
  });
  return element("ul", { class: "bars", "aria-label": label }, items);
}

/** What is said where a text was too long. */
export function truncationNote({ truncated }) {
  return truncated ? note(`The text was too long: ${count(truncated, "token")} at its end skipped.`) : null;
}
