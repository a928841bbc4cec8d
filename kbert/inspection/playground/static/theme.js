/** Dark or light: as the reader chooses, else as TensorBoard around the page is, else as the system is. */

import { element } from "./dom.js";

const KEY = "kbert.appearance";
const system = window.matchMedia("(prefers-color-scheme: dark)");

function surroundings() {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null; // a frame of another origin
  }
}

function stored() {
  try {
    return window.localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // storage is switched off
  }
}

function store(choice) {
  try {
    window.localStorage.setItem(KEY, choice);
  } catch {
    // it holds until the page is closed
  }
}

function apply(choice) {
  const around = surroundings();
  const dark = around ? around.classList.contains("dark-mode") : system.matches;
  document.documentElement.dataset.theme = choice === "auto" ? (dark ? "dark" : "light") : choice;
}

/** The control; it also applies what was chosen earlier. */
export function appearance() {
  let choice = stored();
  const options = ["auto", "light", "dark"].map((name) =>
    element("option", { value: name, selected: name === choice }, name),
  );
  const select = element("select", { id: "appearance" }, options);
  select.addEventListener("change", () => {
    choice = select.value;
    store(choice);
    apply(choice);
  });
  system.addEventListener("change", () => apply(choice));
  const around = surroundings();
  if (around) new MutationObserver(() => apply(choice)).observe(around, { attributeFilter: ["class"] });
  apply(choice);
  return element("label", { class: "appearance" }, "Appearance ", select);
}
