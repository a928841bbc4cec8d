/** The frame that all views share: title, form, one column of results for each chosen model, errors in their place. */

import { ask } from "./api.js";
import { element, note, uniqueId } from "./dom.js";

const WAIT = 300; // milliseconds without a key or a move of a slider before the question is asked

/**
 * A view as a panel of the page.
 *
 * `view` has `name` (of the API), `title`, `what` (one sentence), `source` (where the paper has it), `needs` (which
 * models can do it), `form(session)` → {nodes, body(), refresh()} and `show(answer, context)` → nodes, where `context`
 * is {model, body, ask(more, signal)}: `ask` repeats the question with some fields replaced.
 */
export function viewPanel(view, session) {
  const form = view.form(session);
  const status = element("p", { role: "status", class: "status" });
  const results = element("div", { class: "results" });
  const columns = new Map(); // name of a model → its section
  const button = element("button", { type: "submit", class: "primary" }, "Run");
  const last = element("div", { class: "field" }, button);
  const controls = element("form", { class: "controls", autocomplete: "off" }, form.nodes, last);
  const title = uniqueId("title");
  const node = element(
    "section",
    { class: "view", "aria-labelledby": title, dataset: { view: view.name } },
    element("h2", { id: title }, view.title),
    element("p", { class: "what" }, view.what, " ", element("span", { class: "source" }, `(${view.source})`)),
    controls,
    status,
    results,
  );
  let running = null;
  let timer = 0;

  function columnOf(model) {
    const name = model?.name ?? "";
    if (!columns.has(name)) {
      const heading = element("h3", {}, model ? model.name : "Without a model");
      columns.set(name, element("section", { class: "column" }, heading, element("div", { class: "answer" })));
    }
    return columns.get(name);
  }

  async function fillColumn(model, body, signal) {
    const column = columnOf(model);
    const place = column.querySelector(".answer");
    const put = (...nodes) => {
      place.replaceChildren(...nodes.flat(Infinity).filter((child) => child !== null && child !== undefined));
      column.removeAttribute("aria-busy");
    };
    if (!session.can(view.name, model)) return put(cannot(view, model));
    column.setAttribute("aria-busy", "true");
    const question = { model: model?.name ?? null, ...body };
    const context = { model, body, ask: (more, other = signal) => ask(view.name, { ...question, ...more }, other) };
    try {
      const answer = await ask(view.name, question, signal);
      if (!signal.aborted) put(view.show(answer, context));
    } catch (error) {
      if (!signal.aborted) put(errorNote(error));
    }
  }

  async function run() {
    clearTimeout(timer);
    running?.abort();
    const mine = (running = new AbortController());
    const models = session.chosen();
    const asked = models.length ? models : [null];
    const shown = asked.map(columnOf);
    for (const column of [...results.children]) if (!shown.includes(column)) column.remove();
    shown.forEach(
      (column, index) =>
        results.children[index] !== column && results.insertBefore(column, results.children[index] ?? null),
    );
    results.classList.toggle("several", asked.length > 1);
    node.dataset.state = "asking";
    status.textContent = "Asking … (the first answer of a model takes some seconds)";
    const body = form.body();
    await Promise.all(asked.map((model) => fillColumn(model, body, mine.signal)));
    if (mine !== running || node.dataset.state === "waiting") return; // another question is or will be asked
    status.textContent = results.querySelector(".error") ? "An error: see below." : "Done.";
    node.dataset.state = "done";
  }

  controls.addEventListener("input", () => {
    clearTimeout(timer);
    node.dataset.state = "waiting";
    timer = setTimeout(run, WAIT);
  });
  controls.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  controls.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  return {
    node,
    /** Called whenever the view comes to be seen or the chosen models change. */
    open() {
      form.refresh?.();
      run();
    },
  };
}

/** An error as the reader sees it. */
export function errorNote(error) {
  return element("p", { class: "error", role: "alert" }, "✗ ", error.message);
}

function cannot(view, model) {
  if (!model) return note(`No model is chosen. ${view.needs}`);
  const name = model.task ? `${model.name} (${model.task})` : model.name;
  return note(`${name} cannot do this. ${view.needs} ${model.note}`);
}
