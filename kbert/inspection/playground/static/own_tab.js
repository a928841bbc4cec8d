/** TensorBoard lays out its tabs before all of its header is there: the open one may end up under other controls. */

const NAME = "kbert";
const EVERY = 500; // milliseconds: no event tells of everything that moves the tabs

/** Keeps the tab of this page in view while it is open, until the reader moves the tabs; elsewhere does nothing. */
export function showOwnTab() {
  let around;
  try {
    around = window.parent === window ? null : window.parent.document;
  } catch {
    around = null; // a frame of another origin
  }
  if (!around) return;
  const show = () => {
    if (!window.frameElement?.offsetParent) return; // another tab is open
    const tab = [...around.querySelectorAll(".plugin-name")].find((name) => name.textContent.trim() === NAME);
    if (!tab) return;
    const { left, right, top, bottom } = tab.getBoundingClientRect();
    const onTop = around.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    if (!tab.contains(onTop)) tab.scrollIntoView({ block: "nearest", inline: "center" });
  };
  const timer = setInterval(show, EVERY);
  for (const event of ["pointerdown", "wheel"]) around.addEventListener(event, () => clearInterval(timer));
}
