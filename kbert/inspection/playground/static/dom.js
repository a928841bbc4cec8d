/**
 * Helpers that build the page. Strings become text nodes and attributes: nothing that was typed or answered is parsed
 * as HTML, and no style attribute is written, which the content security policy would refuse.
 */

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Of its properties `dataset` and `style` are objects, and true is a bare attribute. */
export function element(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** An SVG element; the same properties. */
export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "dataset") Object.assign(node.dataset, value);
    else if (key === "style") for (const [property, to] of Object.entries(value)) node.style.setProperty(property, to);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A paragraph that stands out. */
export const note = (...words) => element("p", { class: "note" }, ...words);

/** A paragraph in small letters. */
export const hint = (...words) => element("p", { class: "hint" }, ...words);

/** Something that is opened and closed under its title. */
export const details = (title, ...children) => element("details", {}, element("summary", {}, title), ...children);

/** A row of a table; strings are cells of text, elements are cells themselves. */
export function tableRow(...cells) {
  const made = cells.map((cell) => (typeof cell === "string" ? element("td", { dir: "auto" }, cell) : cell));
  return element("tr", {}, made);
}

/** An id that no other element of the page has. */
export function uniqueId(start) {
  uniqueId.last = (uniqueId.last ?? 0) + 1;
  return `${start}-${uniqueId.last}`;
}

/** A probability in per cent; very small ones are named as such. */
export function percent(probability) {
  if (probability > 0 && probability < 0.0005) return "< 0.1 %";
  return `${(100 * probability).toFixed(1)} %`;
}

/** A number with three significant digits. */
export function short(number) {
  if (number === 0) return "0";
  return Math.abs(number) >= 1000 || Math.abs(number) < 0.001 ? number.toExponential(1) : number.toPrecision(3);
}

/** "1 token", "2 tokens". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** A table with a row of column names; `rows` are `tr` elements. */
export function table(names, rows) {
  const head = names.map((name) => element("th", { scope: "col", dir: "auto" }, name));
  return element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows));
}

/** Something wider than a narrow window: it scrolls by itself, also with the arrow keys. */
export function scrollable(label, ...children) {
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, ...children);
}

/**
 * One tab stop for many buttons: the arrow keys, Home and End move among them.
 *
 * `columns` is the number of buttons in a row where up and down shall move by rows, otherwise 1.
 */
export function rovingFocus(container, buttons, columns = 1) {
  const stop = (chosen) => buttons.forEach((button) => button.setAttribute("tabindex", button === chosen ? "0" : "-1"));
  stop(buttons.find((button) => button.getAttribute("aria-pressed") === "true") ?? buttons[0]);
  container.addEventListener("focusin", (event) => buttons.includes(event.target) && stop(event.target));
  container.addEventListener("keydown", (event) => {
    const here = buttons.indexOf(event.target);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
    let next = here + (steps[event.key] ?? 0);
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = buttons.length - 1;
    if (here < 0 || next === here || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault(); // the arrow keys would scroll the page
    buttons[next]?.focus();
  });
}
