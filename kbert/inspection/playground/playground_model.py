"""A model as the views use it: its parts, made when they are first needed and shared by all who ask.

Shapes: P predictions, V vocabulary.
"""

import threading

import keras
import numpy as np
import tensorflow as tf

from kbert.inspection.analysis.states import encoder_with_attention
from kbert.inspection.playground.request_fields import BadRequest
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained

LONGEST_WITHOUT_MODEL = 512  # tokens: the position table of the released models
_MASKS = 20  # of a text are filled
_WINDOWS = 64  # of a long text are answered: seconds of a base model


class PlaygroundModel:
    """A kbert model with its tokenizer, or a tokenizer alone for what needs no model.

    Use changes nothing here, so that any number of threads may ask at once. `exported` is None; an
    `ExportedModel` has its SavedModel there.
    """

    exported = None

    def __init__(self, tokenizer, model=None):
        self.tokenizer = tokenizer
        self.model = model
        self._lock = threading.RLock()
        self._made = {}

    @classmethod
    def load(cls, source) -> "PlaygroundModel":
        """The model of a source as `kbert.load_pretrained` takes it; BadRequest without a vocabulary."""
        model = load_pretrained(source)
        if model.pretrained.tokenizer is None:
            raise BadRequest(f"{source}: expected a model with a vocabulary. Received: one without")
        return cls(model.pretrained.tokenizer, model)

    @property
    def max_length(self) -> int:
        return self.model.config.max_sequence_length if self.model is not None else LONGEST_WITHOUT_MODEL

    @property
    def is_causal(self) -> bool:
        """Whether the model is left-to-right, which predicts a token at the position before it."""
        return self.model is not None and self.model.config.causal

    def _once(self, key, make):
        """What `make` returned when `key` was first asked for, in whichever thread."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    @property
    def plain(self):
        """The model for plain rows: one that was trained on packed rows takes them apart."""
        packed = self.model.encoder.num_parts is not None and hasattr(self.model, "with_parts")
        return self._once("plain", lambda: self.model.with_parts(None)) if packed else self.model

    @property
    def encoder(self):
        """`kbert.BertEncoder` for plain rows with ``hidden_states`` and ``attention_probs``."""
        if self.model is None:
            raise BadRequest("Expected a model. Received: none; choose one to see what it computes")
        return self._once("encoder", lambda: encoder_with_attention(self.model.encoder))

    @property
    def pipeline(self):
        """The model's `kbert.Pipeline`, with the sequence length that was stored with it."""
        return self._once("pipeline", lambda: build_pipeline(self.plain, self.tokenizer))

    @property
    def fill_mask_preprocessor(self) -> FillMaskPreprocessor:
        """The preprocessor of texts with [MASK], for as many tokens as the model can read."""
        options = {"max_masks": _MASKS, "causal": self.is_causal}
        return self._once("fill mask", lambda: FillMaskPreprocessor(self.tokenizer, self.max_length, **options))

    def has_output(self, name: str) -> bool:
        """Whether there is a model that computes this output, such as ``mlm_logits``."""
        return self.model is not None and name in self.model.output

    def outputs(self, batch, **more) -> dict[str, np.ndarray]:
        """The model's outputs on a batch, as it is called in training but without dropout.

        `more` are inputs that the batch lacks, such as ``mask_positions``.
        """
        batch = {**more, **batch}
        found = self.plain({name: batch[name] for name in self.plain.input}, training=False)
        return {name: keras.ops.convert_to_numpy(value).astype("float32") for name, value in found.items()}

    def masked_lm_loss(self, mask_ids, logits) -> float:
        """The loss of pre-training for one row, ``mask_ids`` [1, P] and ``logits`` [1, P, V]."""
        return float(self._once("loss", self._make_loss)(mask_ids, logits))

    def _make_loss(self):
        loss = self.plain.default_loss()["mlm_logits"]
        # Without static shapes, as XLA would compile the loss anew for every number of masks.
        specs = [tf.TensorSpec([1, None], tf.int32), tf.TensorSpec([1, None, None])]
        return tf.function(lambda ids, logits: loss(ids, logits, tf.ones_like(ids, tf.float32)), specs, autograph=False)

    def preprocessor(self, sequence_length: int, pair: bool) -> TextPreprocessor:
        """The preprocessor of texts, or of pairs of them."""
        key = sequence_length, pair
        return self._once(key, lambda: TextPreprocessor(self.tokenizer, sequence_length, pair=pair))

    def check_task(self, *tasks: str) -> None:
        """Raises BadRequest unless the model is of one of these tasks."""
        task = None if self.model is None else self.model.task
        if task not in tasks:
            raise BadRequest(f"Expected a model of the task {' or '.join(tasks)}. Received: {_named(task)}")

    def run(self, preprocessor, columns, name: str):
        """Batch and outputs for one row of strings, as `kbert.Pipeline` computes them.

        BadRequest says that `columns[name]` has more windows than the playground answers.
        """
        inputs = {column: tf.constant([text]) for column, text in columns.items()}
        if not preprocessor.makes_windows:
            batch = preprocessor(inputs)
        else:
            try:
                batch = preprocessor(inputs, max_windows=_WINDOWS)
            except tf.errors.InvalidArgumentError as error:
                if "A request may hold at most" not in str(error):
                    raise
                raise BadRequest(
                    f"`{name}`: expected a text of at most {_WINDOWS} windows of {preprocessor.sequence_length} "
                    "tokens. Received: a longer one"
                ) from None
        return batch, run_in_length_buckets(self.plain, batch)


def _named(task):
    return "no model" if task is None else f"one of the task {task}"
