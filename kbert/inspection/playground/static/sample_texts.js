/** What stands in the boxes at the beginning. */

export const TEXT = "The river froze early that winter, and nobody had expected it.";
export const TEXT_PAIR = "The children skated on the ice until it was dark.";
export const WITH_MASKS = "The capital of France is [MASK]. She went to the [MASK] and bought some bread.";
export const QUESTION = "When was the bridge opened?";
export const CONTEXT =
  "The old bridge across the river was built of wood and burnt down twice. A new one, of stone, was opened in 1874 " +
  "by the mayor of the town. It still carries the road to the harbour.";
export const WITH_ENTITIES = "Maria Keller moved from Vienna to Geneva in 1987 and worked there for the Red Cross.";
