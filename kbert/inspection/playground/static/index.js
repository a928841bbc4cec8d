/** The playground's page: `render()` builds it, on its own or in TensorBoard's frame. */

import { listModels } from "./api.js";
import attention from "./attention.js";
import classification from "./classification.js";
import { element } from "./dom.js";
import entities from "./entities.js";
import fillMask from "./fill_mask.js";
import inputRepresentation from "./input_representation.js";
import masking from "./masking.js";
import nextSentence from "./next_sentence.js";
import { showOwnTab } from "./own_tab.js";
import questionAnswering from "./question_answering.js";
import { Session, modelChooser } from "./session.js";
import { appearance } from "./theme.js";
import { errorNote, viewPanel } from "./view_panel.js";

const REFRESH = 10_000; // milliseconds between two looks at the list of models
const PRETRAINING = [masking, nextSentence, inputRepresentation, attention, fillMask];
const VIEWS = [...PRETRAINING, questionAnswering, entities, classification];

/** Builds the whole page in the document's body. */
export async function render() {
  const styled = addStyle();
  showOwnTab();
  document.documentElement.lang = "en";
  const header = element(
    "header",
    {},
    element("h1", {}, "kbert playground"),
    element("p", {}, "What BERT is trained on and what it answers, by the very code that trains it."),
    appearance(),
  );
  const main = element("main", {});
  document.body.replaceChildren(header, main);
  try {
    const session = new Session(await listModels());
    main.append(...page(session));
  } catch (error) {
    main.append(errorNote(error));
  }
  await styled;
  document.documentElement.dataset.ready = "yes";
}

/** index.html has the style already; the document that TensorBoard makes has none. Resolved when it is loaded. */
function addStyle() {
  if (document.querySelector("link[rel=stylesheet]")) return Promise.resolve();
  const meta = element("meta", { name: "viewport", content: "width=device-width, initial-scale=1" });
  const link = element("link", { rel: "stylesheet", href: new URL("style.css", import.meta.url).href });
  document.head.append(meta, link);
  return new Promise((resolve) => {
    link.onload = link.onerror = resolve;
  });
}

function page(session) {
  const panels = new Map(); // made when they are first seen
  const place = element("div", { class: "panels" });
  const tabs = VIEWS.map(({ name, title, tab }) => {
    const properties = { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel" };
    return element("button", { ...properties, dataset: { tab: name } }, tab ?? title);
  });
  let open = null;

  function show(name) {
    const view = VIEWS.find((one) => one.name === name) ?? VIEWS[0];
    if (!panels.has(view.name)) panels.set(view.name, viewPanel(view, session));
    open = panels.get(view.name);
    tabs.forEach((tab) => {
      const selected = tab.dataset.tab === view.name;
      tab.setAttribute("aria-selected", String(selected));
      tab.setAttribute("tabindex", selected ? "0" : "-1");
    });
    place.setAttribute("aria-labelledby", `tab-${view.name}`);
    place.replaceChildren(open.node);
    open.open();
  }

  const choose = (name) => {
    window.history.replaceState(null, "", `${window.location.pathname}${window.location.search}#${name}`);
    show(name);
  };
  const list = element("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, tabs);
  tabs.forEach((tab) => tab.addEventListener("click", () => choose(tab.dataset.tab)));
  list.addEventListener("keydown", (event) => {
    const here = tabs.indexOf(event.target);
    const moves = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 };
    if (here < 0 || !(event.key in moves)) return;
    event.preventDefault();
    const next = tabs[(moves[event.key] + tabs.length) % tabs.length];
    choose(next.dataset.tab);
    next.focus();
  });
  window.addEventListener("hashchange", () => show(window.location.hash.slice(1)));
  Object.assign(place, { id: "panel" }).setAttribute("role", "tabpanel");
  show(window.location.hash.slice(1));
  const keys = "Tab moves from control to control; the arrow keys move among tabs, tokens and heads; Ctrl+Enter runs.";
  let chooser = modelChooser(session, () => open.open());
  let last = JSON.stringify(session.models);
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await listModels().catch(() => null); // whoever asks a question is told
    if (!answer || JSON.stringify(answer.models) === last) return;
    last = JSON.stringify(answer.models);
    const focus = document.activeElement?.name === "model" ? document.activeElement.value : null;
    session.update(answer.models);
    const fresh = modelChooser(session, () => open.open());
    chooser.replaceWith(fresh);
    chooser = fresh;
    [...fresh.querySelectorAll("[name=model]")].find((box) => box.value === focus)?.focus();
  }, REFRESH);
  return [chooser, list, place, element("footer", {}, keys)];
}
