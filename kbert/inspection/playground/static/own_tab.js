/** TensorBoard lays out its tabs before all of its header is there: the open one may end up under other controls. */

const NAME = "kbert";
const LATER = [0, 500, 2000]; // milliseconds, until the tab is there

/** Scrolls the tab of this page, which is open, into view; elsewhere than in TensorBoard it does nothing. */
export function showOwnTab() {
  let around;
  try {
    around = window.parent === window ? null : window.parent.document;
  } catch {
    around = null; // a frame of another origin
  }
  if (!around) return;
  const find = () => [...around.querySelectorAll(".plugin-name")].find((one) => one.textContent.trim() === NAME);
  const show = () => {
    if (!window.frameElement?.offsetParent) return; // another tab is open
    find()?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  // Whatever appears beside the tabs, however late, narrows their list.
  const sizes = new window.parent.ResizeObserver(show);
  const watch = () => {
    for (let part = find(); part; part = part.parentElement) sizes.observe(part);
    show();
  };
  for (const delay of LATER) setTimeout(watch, delay);
}
