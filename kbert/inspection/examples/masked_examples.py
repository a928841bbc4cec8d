"""Held-out examples of pre-training as text: original, masked input, the model's guesses, pairs.

Shapes: B batch, S sequence, P predictions, K parts of a packed row, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from numpy.typing import ArrayLike

from kbert.aliases import PathLike
from kbert.checks import check_directory, check_option
from kbert.inspection.board.event_file import EventFile
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View
from kbert.inspection.views.masking import masked_tokens, piece, softmax
from kbert.options import Count
from kbert.training.logs import complete_logs, is_chief, trained_model

_NAMES = ("IsNext", "NotNext")
_MOST_TOKENS = 40  # of a segment are shown


def next_sentence_table(
    inputs: Mapping[str, np.ndarray],
    labels: ArrayLike,
    weights: ArrayLike | None,
    logits: ArrayLike,
    vocabulary: Sequence[str],
) -> str:
    """A Markdown table of the pairs of a batch, as the model sees them: with their masks.

    `inputs` has ``token_ids``, ``segment_ids``, ``padding_mask`` [B, S], and ``part_ids`` for packed rows. `labels` and
    `weights` are [B] or [B, K]: label 0 is IsNext, a pair of weight 0 does not exist. `logits` are [B, 2] or [B, K, 2].
    """
    token_ids = inputs["token_ids"]
    segment_ids = inputs["segment_ids"]
    part_ids = inputs.get("part_ids", np.asarray(inputs["padding_mask"], "int32"))  # part 0 is padding
    labels = np.reshape(labels, (len(token_ids), -1))  # [B, K]
    weights = np.ones(labels.shape) if weights is None else np.reshape(weights, labels.shape)
    fractions = softmax(np.reshape(logits, (*labels.shape, 2)).astype("float64"))  # [B, K, 2]
    rows = []
    for row, part in np.argwhere(weights > 0):
        segments = []
        for segment in (0, 1):
            is_here = (part_ids[row] == part + 1) & (segment_ids[row] == segment)
            ids = token_ids[row][is_here].tolist()
            shown = " ".join(escape(piece(vocabulary, n)) for n in ids[:_MOST_TOKENS]) or "–"
            segments.append(shown + (" …" if len(ids) > _MOST_TOKENS else ""))
        gold = int(labels[row, part])
        verdict = int(fractions[row, part].argmax())
        mark, stars = ("✓", "**") if verdict == gold else ("✗", "*")
        answer = f"{mark} {stars}{_NAMES[verdict]}{stars} ({percent(fractions[row, part, verdict])})"
        rows.append([*segments, _NAMES[gold], answer])
    return markdown_table(["first segment", "second segment", "gold", "predicted"], rows)


class MaskedExamples(keras.callbacks.Callback):
    """Writes held-out examples to TensorBoard's Text tab while a masked language model trains.

    The first table shows the original text, the corrupted input with its masked tokens in bold, and the text with the
    model's best guess at every masked position and its probability. Right guesses follow a ✓. Wrong ones are in italics
    after a ✗, with the probability of the right token. The second table has the pairs of next sentence prediction with
    the model's verdict. Each table is there if the model has that head.

    Args:
        vocabulary: the tokens, in the order of their ids.
        batch: one pre-training batch `(inputs, labels, sample_weight)`, for example the first of the validation data.
        log_dir: the directory of the TensorBoard logs.
        examples: the number of rows of the batch to show.

    Raises:
        ValueError: `examples` is not a positive integer.

    Example::

        batch = next(iter(validation_data))
        model.fit(data, callbacks=[MaskedExamples(tokenizer.vocabulary, batch, "runs/tiny/logs")])
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        batch: tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]],
        log_dir: PathLike,
        examples: int = 4,
    ) -> None:
        super().__init__()
        examples = check_option("MaskedExamples", "examples", examples, Count)
        self.inputs, self.labels, self.weights = (
            {name: np.asarray(value)[:examples] for name, value in part.items()} for part in batch
        )
        self.vocabulary = vocabulary
        self._file = EventFile(check_directory(log_dir, "`log_dir`") / "examples")

    def set_model(self, model: keras.Model) -> None:
        super().set_model(trained_model(model))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if is_chief(self.model):
            step = complete_logs(logs, self.model)["step"]
            self._file.write(step, [view.summary() for view in self.views()])
            self._file.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._file.close()

    def views(self) -> list[View]:
        """The examples as Markdown tables, with the model's current guesses."""
        outputs = self.model(self.inputs, training=False)
        logits = {name: keras.ops.convert_to_numpy(keras.ops.cast(outputs[name], "float32")) for name in outputs}
        views = []
        if "mlm_logits" in logits:
            views.append(View("masked examples", self._table(logits["mlm_logits"])))
        if "nsp_logits" in logits and "nsp_logits" in self.labels:
            pairs = self.labels["nsp_logits"], self.weights.get("nsp_logits"), logits["nsp_logits"]
            views.append(View("next sentence examples", next_sentence_table(self.inputs, *pairs, self.vocabulary)))
        return views

    def _table(self, logits):
        """`logits` are [B, P, V]."""
        used = self.weights["mlm_logits"] > 0  # [B, P]
        lines = ["| | masked pieces in **bold**, right guesses after ✓, wrong ones ✗ *in italics* |", "|---|---|"]
        for row in range(len(logits)):
            places = self.inputs["mask_positions"][row][used[row]].tolist()
            truth = self.labels["mlm_logits"][row][used[row]].tolist()
            for name, text in self._example(row, places, truth, logits[row][used[row]]):
                lines.append(f"| **{name.replace(' ', '&nbsp;')}** | {text} |")  # the narrow column stays on one line
        return "\n".join(lines)

    def _example(self, row, places, truth, logits):
        size = np.flatnonzero(self.inputs["padding_mask"][row]).max(initial=-1) + 1
        ids = self.inputs["token_ids"][row][:size].tolist()
        tokens = masked_tokens(ids, [0] * len(ids), places, truth, self.vocabulary, logits)
        correct = sum(token.guesses[0][0] == token.original for token in tokens if token.is_chosen)

        def line(show):
            return " ".join(show(token) if token.is_chosen else escape(token.corrupted) for token in tokens)

        return (
            ("original", line(lambda token: f"**{escape(token.original)}**")),
            ("corrupted", line(lambda token: f"**{escape(token.corrupted)}**")),
            (f"predicted, {correct} of {len(places)}", line(_answer)),
        )


def _answer(token):
    guess, fraction = token.guesses[0]
    if guess == token.original:
        return f"✓ **{escape(guess)}** ({percent(fraction)})"
    return f"✗ *{escape(guess)}* ({percent(fraction)}, right: {percent(token.label_probability)})"
