"""A few held-out examples as text: the original, the masked input and the model's guesses.

Shapes: B batch, S sequence, P predictions.
"""

import pathlib
import string

import keras
import numpy as np

from kbert.files import explain_full_disk
from kbert.training.training_state import is_chief, updates_done


class MaskedExamples(keras.callbacks.Callback):
    """Writes held-out examples to TensorBoard's Text tab while a masked language model trains.

    Each time it writes a table, with the masked tokens in bold: the original text, the corrupted input, and the text
    with the model's best guess at every masked position, wrong guesses in italics after a ✗.

    Args:
        tokenizer: `BertTokenizer`, for its `vocabulary` and `pad_id`.
        batch: one pre-training batch `(inputs, labels, sample_weight)`, for example the first of the validation data.
        log_dir: path; the same as that of `TensorBoardScalars`.
        examples: int, the number of rows of the batch to show.
        every: int, in epochs of `fit` (windows of `fit_steps`).

    Example::

        batch = next(iter(validation_data))
        callbacks = [TensorBoardScalars("runs/tiny/logs"), MaskedExamples(tokenizer, batch, "runs/tiny/logs")]
    """

    def __init__(self, tokenizer, batch, log_dir, examples=4, every=1):
        super().__init__()
        inputs, labels, weights = batch
        self.inputs = {name: np.asarray(value)[:examples] for name, value in inputs.items()}
        self.mask_ids = np.asarray(labels["mlm_logits"])[:examples]  # [B, P]
        self.mask_weights = np.asarray(weights["mlm_logits"])[:examples]  # [B, P]
        self.vocabulary = tokenizer.vocabulary
        self.pad_id = tokenizer.pad_id
        self.log_dir = pathlib.Path(log_dir)
        self.every = max(1, every)

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every or not is_chief(self.model):
            return
        import tensorflow as tf

        step = logs["step"] if logs and "step" in logs else updates_done(self.model.optimizer)
        table = self.table()
        with explain_full_disk(self.log_dir):
            writer = tf.summary.create_file_writer(str(self.log_dir / "examples"))
            with writer.as_default(step=step):
                tf.summary.text("masked examples", table)
            writer.close()

    def table(self) -> str:
        """The examples as a Markdown table, with the model's current guesses."""
        logits = keras.ops.convert_to_numpy(self.model(self.inputs, training=False)["mlm_logits"])  # [B, P, V]
        guesses = logits.argmax(axis=-1)  # [B, P]
        lines = ["| | masked pieces in **bold**, wrong guesses ✗ *in italics* |", "|---|---|"]
        for row in range(len(guesses)):
            for name, text in self._example(row, guesses[row]):
                lines.append(f"| **{name.replace(' ', '&nbsp;')}** | {text} |")  # the narrow column stays on one line
        return "\n".join(lines)

    def _example(self, row, guesses):
        used = self.mask_weights[row] > 0
        places = self.inputs["mask_positions"][row][used].tolist()
        truth, guesses = self.mask_ids[row][used].tolist(), guesses[used].tolist()
        shown = self.inputs["token_ids"][row].tolist()
        correct = sum(guess == true for guess, true in zip(guesses, truth, strict=True))
        answers = [
            f"**{self._piece(guess)}**" if guess == true else f"✗ *{self._piece(guess)}*"
            for guess, true in zip(guesses, truth, strict=True)
        ]
        return (
            ("original", self._text(shown, places, [f"**{self._piece(true)}**" for true in truth])),
            ("corrupted", self._text(shown, places, [f"**{self._piece(shown[place])}**" for place in places])),
            (f"predicted, {correct} of {len(places)}", self._text(shown, places, answers)),
        )

    def _text(self, ids, places, replacements):
        replaced = dict(zip(places, replacements, strict=True))
        return " ".join(
            replaced.get(place) or self._piece(token_id)
            for place, token_id in enumerate(ids)
            if place in replaced or token_id != self.pad_id
        )

    def _piece(self, token_id):
        """A token for TensorBoard's Markdown: characters that could be markup become character references.

        (Python-Markdown knows few backslash escapes, and TensorBoard allows few tags, none for strikethrough.)
        """
        piece = self.vocabulary[token_id] if token_id < len(self.vocabulary) else f"[{token_id}]"
        return "".join(f"&#{ord(char)};" if char in string.punctuation else char for char in piece)
