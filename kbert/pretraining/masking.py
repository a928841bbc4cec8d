"""Which tokens a language model has to predict: dynamic masking of whole batches, or every next token.

Shapes: B batch, S sequence, P predictions, V vocabulary, u units (tokens, words or entities) of a row, at most S.
"""

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np
import tensorflow as tf

import kbert.text.tokenizer  # noqa: F401  registers BertTokenizer, so that configs that hold one can be read
from kbert.checks import check_option
from kbert.config import MASK_RATE
from kbert.keras_compat import deserialize, pass_inputs_unchanged, set_untracked
from kbert.options import Count, Fraction, NonzeroFraction
from kbert.stateless_random import fold_in, random_integers, uniform

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


# The arguments of `TokenMasking`.
OPTIONS = ("max_predictions", "mask_rate", "mask_token_rate", "keep_rate", "random_token_rate", "whole_word")
_SELECTION, _CORRUPTION, _REPLACEMENT = 1, 2, 3  # independent streams of numbers under one key


@keras.saving.register_keras_serializable("kbert")
class TokenMasking(keras.layers.Layer):
    """Chooses tokens and replaces them by [MASK], themselves or random tokens, as BERT's pre-training does.

    A row of n tokens ([CLS] and [SEP] counted) gets ``min(max_predictions, max(1, round(n * mask_rate)))`` masks
    (rounded half to even), fewer if it has fewer candidates. Candidates are all tokens except [CLS], [SEP], padding
    and special tokens of your own, including [UNK]. Each chosen token becomes, independently, [MASK] with probability
    `mask_token_rate`, itself with `keep_rate`, and a token drawn from the whole vocabulary (special and unused ones
    included) with `random_token_rate`.

    Tokens are chosen in units, in random order; a unit with more tokens than there are masks left is skipped:

    - by default every token is a unit;
    - with `whole_word` every word is, "##" pieces joined to the token before them;
    - with `entity_ids` every unbroken run of one positive id is: an entity is masked as a whole or not at all, and
      never if it is longer than the row's number of masks. Tokens outside of entities are units as above; a word does
      not extend across the border of an entity.

    The result is a function of `keys` alone, row by row: the same whatever the batch, its size or its padding.
    It works on whole batches with core ops: eagerly, in tf.data, inside a model, or under XLA.

    Inside a model it masks in training only, like `keras.layers.Dropout`: with `training=False` and without `keys`, as
    in `predict`, the tokens stay as they are, the positions are those of [MASK] in them, and the weights are 0. Under a
    strategy each replica masks its rows as one device would mask them in the whole batch.

    Args:
        tokenizer: `kbert.BertTokenizer`; gives the special ids, the vocabulary size and the "##" pieces.
        max_predictions: P, the maximum number of masks in a row.
        mask_rate: in (0, 1], of all tokens.
        mask_token_rate, keep_rate, random_token_rate: of the chosen tokens; they add up to 1.
        whole_word: whether words are units.
        seed: for the layer's own keys (used where a call gives none), which are new at every call; None: a random
            one. Or an integer Keras variable, such as ``optimizer.iterations``: the keys are then a function of its
            value at the call, and a saved layer keeps that value as its seed.
        **kwargs: name, dtype, trainable.

    Inputs:
        batch: dict with ``token_ids`` int32 [B, S] and ``padding_mask`` bool [B, S]; other entries pass through.
        keys: integers [B], e.g. ``fold_in(seed, epoch, example)`` of `kbert.stateless_random`; None: new ones from the
            layer's seed at every call.
        entity_ids: int32 [B, S], 0 = outside of any entity, or None.
        training: whether to mask without `keys`; None, as where nothing says: yes.

    Outputs:
        ``(inputs, mask_ids, mask_weights)``: `batch` with corrupted ``token_ids`` and with ``mask_positions`` int32
        [B, P] (ascending, then 0), the original ids int32 [B, P] (then 0), and float32 [B, P] (1 for a mask, then 0).

    Raises:
        ValueError: rates that are not probabilities or do not add up to 1; a batch without the entries above.

    Source: Devlin et al. 2018, section 3.1 and appendix A.1; google-research/bert create_pretraining_data.py.

    Example::

        batch = TextPreprocessor(tokenizer, sequence_length=16)(["the quick brown fox"])
        masking = TokenMasking(tokenizer, max_predictions=3)
        inputs, mask_ids, mask_weights = masking(batch, keys=tf.constant([7], tf.int64))
    """

    def __init__(
        self,
        tokenizer: "BertTokenizer",
        max_predictions: int = 20,
        mask_rate: float = MASK_RATE,
        mask_token_rate: float = 0.8,
        keep_rate: float = 0.1,
        random_token_rate: float = 0.1,
        whole_word: bool = False,
        seed: int | keras.Variable | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.max_predictions = check_option("TokenMasking", "max_predictions", max_predictions, Count)
        self.mask_rate = check_option("TokenMasking", "mask_rate", mask_rate, NonzeroFraction)
        fractions = {"mask_token_rate": mask_token_rate, "keep_rate": keep_rate, "random_token_rate": random_token_rate}
        fractions = {name: check_option("TokenMasking", name, value, Fraction) for name, value in fractions.items()}
        if abs(sum(fractions.values()) - 1.0) > 1e-6:
            raise ValueError(
                f"TokenMasking: mask_token_rate + keep_rate + random_token_rate must be 1. Received: {fractions}"
            )
        self.mask_token_rate, self.keep_rate, self.random_token_rate = fractions.values()
        self.tokenizer = tokenizer
        self.whole_word = whole_word
        set_untracked(self, "seed", seed)  # a variable belongs to whoever changes it
        set_untracked(self, "_first_seed", random.randint(0, 2**31 - 1) if seed is None else seed)
        self._calls = None
        if isinstance(seed, keras.Variable):
            pass
        elif keras.backend.backend() == "tensorflow":
            # Not Keras' seed generator, whose state is not saved with a model: masks would begin anew.
            self._calls = self.add_weight((), "zeros", "int64", trainable=False, name="calls")
        else:
            # In a graph of TensorFlow another backend's state would be read once, when the graph is made.
            with tf.init_scope():
                self._calls = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._is_continuation = None  # numpy bool [V], once the vocabulary is known
        pass_inputs_unchanged(self)  # keys are int64; and nothing moves to another backend

    def call(
        self,
        batch: Mapping[str, tf.Tensor],
        keys: tf.Tensor | None = None,
        entity_ids: tf.Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        if not {"token_ids", "padding_mask"} <= batch.keys():
            raise ValueError(f"TokenMasking: the batch needs `token_ids` and `padding_mask`. Received: {list(batch)}")
        token_ids = tf.convert_to_tensor(batch["token_ids"], tf.int32)  # [B, S]
        padding_mask = tf.convert_to_tensor(batch["padding_mask"], tf.bool)  # [B, S]
        entity_ids = None if entity_ids is None else tf.convert_to_tensor(entity_ids)
        if keys is None and training is not None and not training:
            return self._without_masks(batch, token_ids)
        if keys is None:
            keys = fold_in(self._next_seed(), _rows_of_whole_batch(tf.shape(token_ids)[0]))
        is_candidate = padding_mask
        for special in (self.tokenizer.cls_id, self.tokenizer.sep_id, *self.tokenizer.own_special_ids):
            is_candidate &= token_ids != special
        lengths = tf.math.count_nonzero(padding_mask, axis=1, dtype=tf.int32)  # [B]
        candidates = tf.math.count_nonzero(is_candidate, axis=1, dtype=tf.int32)
        budget = tf.minimum(self.most_masks(lengths), candidates)
        noise = uniform(fold_in(keys, _SELECTION), tf.shape(token_ids)[1])  # [B, S]
        if self.whole_word or entity_ids is not None:
            starts = self._unit_starts(token_ids, is_candidate, entity_ids)
            is_chosen = _choose_units(is_candidate, starts, noise, budget)  # [B, S]
            positions, is_mask = ascending_positions(is_chosen, self.max_predictions)
        else:
            positions, is_mask = _choose_tokens(is_candidate, noise, budget, self.max_predictions)  # [B, P]
        mask_ids = tf.gather(token_ids, positions, batch_dims=1)  # [B, P]
        change = tf.where(is_mask, self._replacements(mask_ids, keys) - mask_ids, 0)
        inputs = {**batch, "token_ids": _add_at(token_ids, positions, change), "mask_positions": positions}
        return inputs, tf.where(is_mask, mask_ids, 0), tf.cast(is_mask, tf.float32)

    def most_masks(self, lengths: tf.Tensor) -> tf.Tensor:
        """At most how many masks rows of so many tokens get: int32 tensor of the shape of `lengths`."""
        # float64 and half to even: what Python's round(n * 0.15) does.
        wanted = tf.cast(tf.round(tf.cast(lengths, tf.float64) * self.mask_rate), tf.int32)
        return tf.clip_by_value(wanted, 1, self.max_predictions)

    def _without_masks(self, batch, token_ids):
        """The text as it is, with the positions of the [MASK]s that it has."""
        positions, is_mask = ascending_positions(token_ids == self.tokenizer.mask_id, self.max_predictions)
        no_ids = tf.zeros_like(positions)
        return {**batch, "mask_positions": positions}, no_ids, tf.zeros_like(is_mask, tf.float32)

    def _next_seed(self):
        if self._calls is None:
            numbers = tf.reshape(tf.convert_to_tensor(self.seed), [-1])  # of a seed generator: two
            return fold_in(0, *tf.unstack(numbers))
        return fold_in(self._first_seed, self._calls.assign_add(1))

    def _unit_starts(self, token_ids, is_candidate, entity_ids):
        """Where new units begin, bool [B, S]."""
        is_first = is_candidate & (tf.cumsum(tf.cast(is_candidate, tf.int32), axis=1) == 1)
        starts = tf.ones_like(is_candidate)
        if self.whole_word:
            starts = ~tf.gather(self._continuation_table(), token_ids)
        if entity_ids is not None:
            # [CLS] and [SEP] are not candidates: a "##" piece after one belongs to the word before it.
            before = tf.pad(entity_ids, [[0, 0], [2, 0]])
            skipped = ~tf.pad(is_candidate, [[0, 0], [1, 0]])[:, :-1]
            previous = tf.where(skipped, before[:, :-2], before[:, 1:-1])  # [B, S]
            adjacent = tf.where(skipped, 0, before[:, 1:-1])
            starts = tf.where(entity_ids > 0, entity_ids != adjacent, starts | (previous > 0))
        return is_candidate & (is_first | starts)

    def _continuation_table(self):
        if self._is_continuation is None:  # not in __init__: a reloaded tokenizer gets its vocabulary later
            self._is_continuation = np.array([token.startswith("##") for token in self.tokenizer.vocabulary])
        return tf.constant(self._is_continuation)

    def _replacements(self, mask_ids, keys):
        """The tokens that replace the chosen ones, int32 [B, P]."""
        choice = uniform(fold_in(keys, _CORRUPTION), self.max_predictions)
        random_ids = random_integers(
            fold_in(keys, _REPLACEMENT), self.max_predictions, 0, self.tokenizer.vocabulary_size
        )
        # Written so that a rate of 0 never occurs and a rate of 1 always does, whatever the rounding.
        kept_or_random = tf.where(choice >= 1.0 - self.random_token_rate, tf.cast(random_ids, tf.int32), mask_ids)
        return tf.where(choice < self.mask_token_rate, self.tokenizer.mask_id, kept_or_random)

    def compute_output_spec(
        self,
        batch: Mapping[str, keras.KerasTensor],
        keys: keras.KerasTensor | None = None,
        entity_ids: keras.KerasTensor | None = None,
        training: bool | None = None,
    ) -> tuple[dict[str, keras.KerasTensor], keras.KerasTensor, keras.KerasTensor]:
        size = batch["token_ids"].shape[0]
        # New symbols also for what passes through: one tensor cannot be input and output of the same layer.
        inputs = {name: keras.KerasTensor(x.shape, dtype=x.dtype) for name, x in batch.items()}
        inputs["mask_positions"] = keras.KerasTensor((size, self.max_predictions), dtype="int32")
        return (
            inputs,
            keras.KerasTensor((size, self.max_predictions), dtype="int32"),
            keras.KerasTensor((size, self.max_predictions), dtype="float32"),
        )

    def get_config(self) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in OPTIONS}
        seed = int(self._next_seed()) % 2**31 if self._calls is None else self.seed
        return {**super().get_config(), "tokenizer": self.tokenizer, **options, "seed": seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(**{**config, "tokenizer": deserialize(config["tokenizer"])})


def _rows_of_whole_batch(number):
    """The numbers of this replica's rows in the batch of all replicas, int32 [B]."""
    context = tf.distribute.get_replica_context()
    rows = tf.range(number)
    if context is None or context.num_replicas_in_sync == 1:
        return rows
    return rows + number * tf.cast(context.replica_id_in_sync_group, tf.int32)


def _choose_tokens(is_candidate, noise, budget, max_predictions):
    """The `budget` candidates with the least noise: positions int32 [B, P] ascending, and which of them are real."""
    length = tf.shape(noise)[1]
    size = tf.minimum(max_predictions, length)
    _, order = tf.math.top_k(tf.where(is_candidate, -noise, -2.0), size)  # [B, min(P, S)], least noise first
    is_real = tf.range(size)[tf.newaxis, :] < budget[:, tf.newaxis]
    positions = tf.sort(tf.where(is_real, order, length), axis=1)
    return _fixed_width(positions, length, max_predictions)


def _choose_units(is_candidate, starts, noise, budget):
    """Takes units in the order of their noise while they fit, skips those that do not: chosen tokens, bool [B, S].

    The original visits the shuffled units one by one. Here each pass takes the longest run of units that fits. The unit
    after it is larger than the remaining budget, which only shrinks, so it can be skipped for good. Skipping every unit
    that is too large and repeating gives exactly the original's choice, in a few passes.
    """
    batch, length = tf.unstack(tf.shape(noise))
    unit = tf.cumsum(tf.cast(starts, tf.int32), axis=1) * tf.cast(is_candidate, tf.int32)  # [B, S], 0 = none
    row = tf.range(batch)[:, tf.newaxis] * (length + 1)
    sizes = tf.math.unsorted_segment_sum(
        tf.reshape(tf.cast(is_candidate, tf.int32), [-1]), tf.reshape(unit + row, [-1]), batch * (length + 1)
    )
    sizes = tf.reshape(sizes, [batch, length + 1])  # [B, u + 1] tokens of each unit
    order = tf.argsort(tf.where(starts, noise, 2.0), axis=1)  # [B, u]: where the units begin, least noise first
    ordered_units = tf.gather(tf.where(starts, unit, 0), order, batch_dims=1)  # [B, u], 0 after the last one
    ordered_sizes = tf.gather(sizes, ordered_units, batch_dims=1)

    def fits(taken, left):
        return (ordered_units > 0) & ~taken & (ordered_sizes <= left[:, tf.newaxis])

    def one_pass(taken, left):
        total = tf.cumsum(tf.where(fits(taken, left), ordered_sizes, 0), axis=1)
        new = fits(taken, left) & (total <= left[:, tf.newaxis])
        return taken | new, left - tf.reduce_sum(tf.where(new, ordered_sizes, 0), axis=1)

    taken, _ = tf.while_loop(
        lambda taken, left: tf.reduce_any(fits(taken, left)), one_pass, [tf.zeros_like(is_candidate), budget]
    )
    by_unit = tf.math.unsorted_segment_max(
        tf.reshape(tf.cast(taken, tf.int32), [-1]), tf.reshape(ordered_units + row, [-1]), batch * (length + 1)
    )
    return is_candidate & (tf.gather(tf.reshape(by_unit, [batch, length + 1]), unit, batch_dims=1) > 0)


def ascending_positions(is_chosen: tf.Tensor, max_predictions: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Positions of the True entries, at most P per row: int32 [B, P] ascending, and which of them are real."""
    length = tf.shape(is_chosen)[1]
    positions = tf.where(is_chosen, tf.range(length)[tf.newaxis, :], length)
    positions = -tf.math.top_k(-positions, tf.minimum(max_predictions, length))[0]
    return _fixed_width(positions, length, max_predictions)


def _fixed_width(positions, length, max_predictions):
    """Pads [B, min(P, S)] to [B, P]; the position `length` means no mask, and becomes 0."""
    missing = max_predictions - tf.shape(positions)[1]
    positions = tf.pad(positions, [[0, 0], [0, missing]], constant_values=length)
    positions = tf.ensure_shape(positions, [None, max_predictions])
    is_real = positions < length
    return tf.where(is_real, positions, 0), is_real


def _add_at(values, positions, change):
    """`values` [B, S] with `change` [B, P] added at `positions`; unused predictions add 0 at position 0."""
    rows = tf.broadcast_to(tf.range(tf.shape(values)[0])[:, tf.newaxis], tf.shape(positions))
    return tf.tensor_scatter_nd_add(values, tf.stack([rows, positions], axis=-1), change)


class NextTokens:
    """Stands for `TokenMasking` in the layout of rows: the same results, for the paper's "LTR" model.

    Prediction n of a row is made at the position before its token, the n-th that is neither [CLS] nor [SEP]: the
    tokens that masks are chosen from. The text stays as it is. `call` has the arguments of `TokenMasking.call`, but
    ignores `keys` and `entity_ids`: no token is chosen at random.

    Source: Devlin et al. 2018, section 5.1, "LTR & No NSP".
    """

    def __init__(self, tokenizer: "BertTokenizer", max_predictions: int):
        self.max_predictions = check_option("NextTokens", "max_predictions", max_predictions, Count)
        self.tokenizer = tokenizer

    def call(
        self, batch: Mapping[str, tf.Tensor], keys: tf.Tensor | None = None, entity_ids: tf.Tensor | None = None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
        """(`batch` with ``mask_positions`` int32 [B, P], next tokens int32 [B, P], their weights float32 [B, P])."""
        following = batch["token_ids"][:, 1:]  # [B, S - 1]
        is_special = (following == self.tokenizer.cls_id) | (following == self.tokenizer.sep_id)
        positions, is_real = ascending_positions(batch["padding_mask"][:, 1:] & ~is_special, self.max_predictions)
        token_ids = tf.gather(following, positions, batch_dims=1)  # [B, P]
        inputs = {**batch, "mask_positions": positions}
        return inputs, tf.where(is_real, token_ids, 0), tf.cast(is_real, tf.float32)

    def most_masks(self, lengths: tf.Tensor) -> tf.Tensor:
        """At most how many predictions rows of so many tokens get: all but [CLS] and a [SEP], int32."""
        return tf.clip_by_value(tf.cast(lengths, tf.int32) - 2, 1, self.max_predictions)
