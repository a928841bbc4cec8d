"""Questions on long texts → the windows of fine-tuning.

Shapes: W windows.
"""

import numpy as np

from kbert.tasks.span.positions import span_positions
from kbert.tasks.span.questions import Questions
from kbert.tasks.window_store import WindowStore


def span_windows(questions: Questions, preprocessor):
    """All windows of the questions, and the position of the answer in each.

    Args:
        questions: the training examples; none of them lost (`Questions.is_lost`), since these would teach the model
            that there is no answer.

    Returns:
        (`WindowStore`, {"start_logits", "end_logits"}): int32 [W, 2], the answer's first or last token and the length
        of the window; the loss ignores positions after it (`kbert.optim.SpanLoss`).

    Raises:
        ValueError: lost questions.
    """
    if questions.is_lost.any():
        lost = [questions.ids[i] for i in np.flatnonzero(questions.is_lost)[:3]]
        raise ValueError(
            f"span_windows: expected contexts that hold their answers. Received: {int(questions.is_lost.sum())} that "
            f"do not, such as {lost}; take the others"
        )
    positions = []

    def locate(some, batch):
        positions.append(span_positions(batch, some.answer_starts, some.answer_ends))

    store = WindowStore.from_examples(questions, preprocessor, locate)
    starts, ends = (np.concatenate([np.asarray(pair[i]) for pair in positions]) for i in (0, 1))
    return store, {
        "start_logits": np.stack([starts, store.lengths], 1),
        "end_logits": np.stack([ends, store.lengths], 1),
    }
