"""The model that a pre-training starts from."""

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from kbert.config import BertConfig
from kbert.corpus.records_manifest import is_records
from kbert.layers.sinusoidal_positions import SinusoidalPositions
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.options import read_config
from kbert.pretraining.run.options import PRESETS, NewModel
from kbert.pretraining.run.source import input_files, is_text
from kbert.text.vocabulary import PAD, check_same_tokenizer
from kbert.training.hardware import Hardware

if TYPE_CHECKING:
    from kbert.corpus.records import Records
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Start:
    """What the weights and the tokenizer of a run start from: arguments of `kbert.pretrain` by their own names."""

    init: Any
    size: str | None
    vocabulary: Any
    lowercase: bool
    dropout: float | None
    new_model: NewModel
    seed: int

    def __post_init__(self):
        """Raises ValueError for `new_model` with `init`; what a preset says of new weights is allowed there."""
        default = NewModel().to_json()
        given = {name: value for name, value in self.new_model.to_json().items() if value != default[name]}
        if self.init is not None and given:
            if not any(given.items() <= read_config(path).items() for path in PRESETS.glob("*.yaml")):
                raise ValueError(f"pretrain: `init` has positions and weights of its own. Received: {given} as well")

    @property
    def dropout_fields(self) -> dict[str, float]:
        """Fields of `BertConfig` for `dropout`, if one was given."""
        return {} if self.dropout is None else dict.fromkeys(("hidden_dropout", "attention_dropout"), self.dropout)

    @property
    def is_loaded(self) -> bool:
        """Whether `init` is a path or a name."""
        return isinstance(self.init, str | os.PathLike)

    @property
    def is_given(self) -> bool:
        """Whether `init` is a model in memory."""
        return self.init is not None and not self.is_loaded


def check_start(start: Start, corpus: Any) -> None:
    """Raises ValueError for arguments that do not go together, or not with this corpus."""
    if start.vocabulary is None and start.init is None and is_text(corpus):
        input_files(corpus, None)  # an error if there are none, such as of a misspelled directory of records
        raise ValueError("pretrain: a corpus of text needs `vocabulary` (kbert vocabulary makes one) or `init`.")
    if start.vocabulary is not None and is_records(corpus):
        raise ValueError("pretrain: records have a vocabulary of their own. Received: `vocabulary` as well")
    if start.vocabulary is not None and start.is_loaded:
        raise ValueError("pretrain: `init` has a vocabulary of its own. Received: `vocabulary` as well")
    if not start.lowercase and not isinstance(start.vocabulary, str | os.PathLike | list | tuple):
        raise ValueError(
            "pretrain: `lowercase` goes with a `vocabulary` file: tokenizers, `init` and records have a setting of "
            "their own. Received: lowercase=False"
        )
    if start.is_given and start.size is not None:
        raise ValueError(
            f"pretrain: a model in memory has a size of its own. Received: size={start.size!r} and a model as `init`"
        )


def make_new_model(
    start: Start, vocabulary: Sequence[str], *, next_sentence: bool, left_to_right: bool, sequence_length: int
) -> BertPretrainer:
    """A `BertPretrainer` with new weights."""
    size = start.size or "tiny"
    new = start.new_model
    deviation = new.initializer_stddev
    if deviation == "scaled":  # sums over the width of this size vary as base's
        deviation = 0.02 * math.sqrt(BertConfig().hidden_dim / BertConfig.from_size(size).hidden_dim)
    config = BertConfig.from_size(
        size,
        vocabulary_size=len(vocabulary),
        pad_token_id=vocabulary.index(PAD),
        causal=left_to_right,
        pooled_token="last" if left_to_right else "first",
        position_embedding=new.position_embedding,
        max_sequence_length=max(512, sequence_length),
        initializer_stddev=deviation,
        **start.dropout_fields,
    )
    model = BertPretrainer(config, next_sentence=next_sentence)
    if new.position_initializer == "sinusoidal" and new.position_embedding == "learned":
        table = model.encoder.embeddings.position_embedding.embeddings
        waves = SinusoidalPositions(config.hidden_dim, config.initializer_stddev, dtype="float32")
        table.assign(waves(keras.ops.arange(config.max_sequence_length)))
    return model


def source_tokenizer(start: Start, records: "Records | None" = None) -> "BertTokenizer | None":
    """The tokenizer of the records, or of the `vocabulary` that is given; None without either."""
    from kbert.text.tokenizer import BertTokenizer  # not above: it loads TensorFlow

    if records is not None:
        return records.tokenizer()
    if start.vocabulary is None or isinstance(start.vocabulary, BertTokenizer):
        return start.vocabulary
    return BertTokenizer(start.vocabulary, lowercase=start.lowercase)


def loaded_model(
    start: Start, task: str, sequence_length: int, hardware: Hardware, records: "Records | None"
) -> "tuple[BertPretrainer, BertTokenizer]":
    """The model that `init` names, grown to `size`, and its tokenizer."""
    from kbert.weights.load import load_pretrained  # not above: it loads TensorFlow

    with hardware.scope():
        model = load_pretrained(start.init, task, sequence_length=sequence_length, **start.dropout_fields)
        tokenizer = model.pretrained.tokenizer
        if records is not None:
            _check_records(start, records, tokenizer)
        if start.size is not None:
            model = grow_model(model, start.size, seed=start.seed)
    return model, tokenizer


def _check_records(start, records, tokenizer):
    """Raises ValueError, with the command that helps, if `init` has another tokenizer than the records."""
    try:
        records.check_tokenizer(tokenizer)
    except ValueError as error:
        raise ValueError(
            f"pretrain: expected records with the tokenizer of `init`, {start.init}, which its weights are for. "
            f"Received: {records.directory}. Prepare the records again: kbert records --vocabulary {start.init} "
            f"({error})"
        ) from error


def given_model(
    start: Start, task: str, sequence_length: int, records: "Records | None"
) -> "tuple[BertPretrainer, BertTokenizer]":
    """The model in memory, and its tokenizer: its own or that of the text or records, which must be the same."""
    from kbert.weights.build_pipeline import own_tokenizer  # not above: they load TensorFlow
    from kbert.weights.description import check_sequence_length, check_vocabulary_fits

    model = _model_of(start.init)
    if not isinstance(model, BertPretrainer) or model.task != task:
        received = getattr(model, "task", type(model).__name__)
        raise ValueError(f"pretrain: `init` must be a BertPretrainer with task {task!r}. Received: {received!r}")
    tokenizer = _same_tokenizer(own_tokenizer(start.init), source_tokenizer(start, records), records)
    if start.dropout is not None:
        raise ValueError("pretrain: `dropout` is a setting of new and loaded models. Received: a model as `init`")
    check_vocabulary_fits("pretrain", tokenizer, model.config)
    check_sequence_length("pretrain", sequence_length, model.config)
    return model, tokenizer


def _model_of(init):
    from kbert.pipelines.pipeline import Pipeline  # not above: it loads TensorFlow

    return init.model if isinstance(init, Pipeline) else init


def _same_tokenizer(own, other, records):
    """The tokenizer of the model, `own`, and of the text or records, `other`; of a model without one the latter."""
    if own is None and other is None:
        raise ValueError("pretrain: a model that was not loaded with its tokenizer needs `vocabulary`.")
    if own is None or other is None:
        return own or other
    name = "pretrain: `vocabulary`" if records is None else "pretrain: the records"
    check_same_tokenizer(name, (own.vocabulary, own.settings()), (other.vocabulary, other.settings()))
    return own
