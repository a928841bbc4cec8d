/** What stands in the boxes at the beginning. */

export const TEXT = "The river froze early that winter, and nobody had expected it.";
export const TEXT_PAIR = "The children skated on the ice until it was dark.";
export const WITH_MASKS = "The capital of France is [MASK]. She went to the [MASK] and bought some bread.";
export const DOCUMENT =
  "The old bridge across the river was built of wood. It burnt down twice within thirty years. After the second " +
  "fire the town collected money for a new one. Every household gave what it could. The mayor himself carried " +
  "the first stone to the bank.\n\n" +
  "The work took four summers. In winter the river rose and nobody could build. When the bridge was opened, the " +
  "children were the first to cross it. An old woman sold warm bread on the other side. It still carries the " +
  "road to the harbour.";
export const OTHER_DOCUMENT =
  "A colony of bees can hold fifty thousand workers. Most of them live for about six weeks. The youngest clean " +
  "the cells and feed the larvae. Later they build comb and guard the entrance. Only in the last half of their " +
  "lives do they fly out to the flowers.\n\n" +
  "A bee that has found food dances when she returns. The direction of the dance tells the others where to fly. " +
  "Its length tells them how far away the flowers are.";
export const QUESTION = "When was the bridge opened?";
export const CONTEXT =
  "The old bridge across the river was built of wood and burnt down twice. A new one, of stone, was opened in 1874 " +
  "by the mayor of the town. It still carries the road to the harbour.";
export const WITH_ENTITIES = "Maria Keller moved from Vienna to Geneva in 1987 and worked there for the Red Cross.";
