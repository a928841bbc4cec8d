/** TensorBoard lays out its tabs before all of its header is there: the open one may end up under other controls. */

const NAME = "kbert";
const LATER = [0, 500, 2000]; // milliseconds; TensorBoard does not say when its header is complete

/** Scrolls the tab of this page, which is open, into view; elsewhere than in TensorBoard it does nothing. */
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
    const tab = [...around.querySelectorAll(".plugin-name")].find((one) => one.textContent.trim() === NAME);
    tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  for (const delay of LATER) setTimeout(show, delay);
  window.parent.addEventListener("resize", () => setTimeout(show, LATER[1]));
}
