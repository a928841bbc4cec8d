"""An encoder alone: texts or pairs → embeddings, and as a served model hidden states and tokens.

Shapes: B batch, S sequence, L layers, H hidden, n sentences.
"""

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbert.tasks.metrics import cosine, pearson, spearman
from kbert.tasks.task import Task, TaskSignature, of_model

if TYPE_CHECKING:
    import keras

    from kbert.answers.answers import Answers
    from kbert.models.bert_model import BertModel
    from kbert.models.encoder import BertEncoder
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor, TextPreprocessor
    from kbert.text.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Encoder(Task):
    """Gives the ``embedding`` of a text.

    A served encoder also offers ``embed`` (all poolings), ``tokenize`` and ``features``.

    Args:
        pair: whether the texts come in pairs.
        pooling: how hidden states become an embedding (`kbert.answers.EmbeddingAnswers`).
        normalize: whether embeddings are scaled to length 1.

    Raises:
        ValueError: on `signatures`, an ensemble, which has no hidden states of its own.
    """

    pair: bool = of_model(False)
    pooling: Literal["mean", "max", "cls", "pooler"] = of_model("mean")
    normalize: bool = of_model(False)

    name = "encoder"
    model_name = "BertEncoder"
    answer_names = {"embedding": "EmbeddingAnswers"}
    is_finetuned = False

    def parts(
        self, model: "BertModel", tokenizer: "BertTokenizer", sequence_length: int
    ) -> "tuple[Preprocessor, Answers]":
        from kbert.answers.embedding import EmbeddingAnswers
        from kbert.preprocessing.preprocessor import TextPreprocessor

        preprocessor = TextPreprocessor(tokenizer, sequence_length, self.pair, name="preprocessor")
        return preprocessor, EmbeddingAnswers(self.pooling, self.normalize, name="answers")

    @classmethod
    def signatures(cls, pipeline: "Pipeline", *, layers: Sequence[int] | None = None) -> dict[str, TaskSignature]:
        """The signatures of an encoder. `layers` are the hidden states that ``features`` has."""
        if pipeline.model.members:
            raise ValueError(
                "export: an ensemble of encoders has no hidden states of its own, which the signature `features` "
                "gives. Export its members, each by itself."
            )
        return {
            "embed": _embed(pipeline),
            "tokenize": TaskSignature(lambda batch, inputs: token_list(pipeline.preprocessor, inputs)),
            "features": _features(pipeline, layers),
        }

    @classmethod
    def values_per_row(cls, pipeline: "Pipeline") -> int:
        return _hidden(pipeline, 1)


def _embed(pipeline) -> TaskSignature:
    from kbert.answers.embedding import EmbeddingAnswers
    from kbert.pipelines.run_in_length_buckets import run_in_length_buckets

    own = pipeline.answers
    poolings = {name: EmbeddingAnswers(name, own.normalize) for name in ("mean", "cls", "max")}

    def finish(batch, inputs):
        outputs = run_in_length_buckets(pipeline.model, batch)
        pooled = {name: pool(outputs, batch)["embedding"] for name, pool in poolings.items()}
        return {**own(outputs, batch), **pooled}

    return TaskSignature(finish, values_per_row=_hidden(pipeline, 1))


def _features(pipeline, layers) -> TaskSignature:
    import tensorflow as tf

    from kbert.pipelines.run_in_length_buckets import run_in_length_buckets

    model = encoder_layers(pipeline.model.encoder, layers)
    model.row_lengths = pipeline.model.row_lengths

    def finish(batch, inputs):
        outputs = run_in_length_buckets(model, batch, token_outputs=("features",))
        features = tf.where(batch["padding_mask"][:, :, tf.newaxis, tf.newaxis], outputs["features"], 0.0)
        tokens = token_list(pipeline.preprocessor, inputs)
        return {"features": features, "tokens": tokens["tokens"], "count": tokens["count"]}  # [B, S, L, H]

    return TaskSignature(finish, values_per_row=_hidden(pipeline, model.output["features"].shape[2]))


def _hidden(pipeline, states: int) -> int:
    """Floats of a row of hidden states [S, L, H]."""
    return pipeline.preprocessor.sequence_length * states * pipeline.model.config.hidden_dim


def encoder_layers(encoder: "BertEncoder", layers: Sequence[int] | None = None) -> "keras.Model":
    """A model on the encoder's batch with the output ``features`` float32 [B, S, L, H]; it shares the encoder's layers.

    `layers` are indices into the encoder's hidden states: 0 is the embeddings, -1 the last block. None means the last
    four, or all where there are fewer.

    Source: Devlin et al. 2018, section 5.3 (the feature-based approach); Google's ``extract_features.py``.
    """
    import keras

    outputs = [layer.output for layer in (encoder.embeddings, *encoder.blocks)]
    states = [output[0] if isinstance(output, list | tuple) else output for output in outputs]  # without attention
    if layers is None:
        layers = range(-1, -1 - min(4, len(states)), -1)
    known = range(-len(states), len(states))
    is_list = isinstance(layers, list | tuple | range) and len(layers) > 0
    if not is_list or any(type(layer) is not int or layer not in known for layer in layers):
        raise ValueError(
            f"features: `layers` must be a list of hidden states, {known[0]} to {known[-1]}. Received: {layers!r}"
        )
    stacked = keras.ops.stack([keras.ops.cast(states[layer], "float32") for layer in layers], axis=2)  # [B, S, L, H]
    return keras.Model(encoder.input, {"features": stacked})


def token_list(preprocessor: "TextPreprocessor", inputs: Mapping[str, Any]) -> dict:
    """The tokens of a `TextPreprocessor`'s batch, in readable form.

    Returns:
        dict of ``token_ids``, ``segment_ids`` int32 [B, S]; ``tokens`` string [B, S], as in the vocabulary; ``count``
            int32 [B]; ``starts``, ``ends`` int32 [B, S], the code points of the text that a token is from (of
            ``text_pair`` where the segment is 1), -1 for [CLS] and [SEP]. The positions from ``count`` on are padding,
            with the id of [PAD], "" and -1.
    """
    import tensorflow as tf

    from kbert.preprocessing.strings import string_columns
    from kbert.text.packing import pack

    tokenizer = preprocessor.tokenizer
    batch = preprocessor(inputs)
    columns = string_columns(inputs, preprocessor.input_names, "tokenize")
    pieces = [tokenizer.tokenize_with_offsets(column) for column in columns]  # of each text (ids, starts, ends)
    starts, ends = (
        pack([piece[i] for piece in pieces], preprocessor.sequence_length, cls_id=-1, sep_id=-1, pad_id=-1)["token_ids"]
        for i in (1, 2)
    )
    tokens = tf.gather(tf.constant(tokenizer.vocabulary), batch["token_ids"])  # [B, S]
    return {
        "token_ids": batch["token_ids"],
        "segment_ids": batch["segment_ids"],
        "tokens": tf.where(batch["padding_mask"], tokens, ""),
        "starts": starts,
        "ends": ends,
        "count": tf.math.count_nonzero(batch["padding_mask"], axis=1, dtype=tf.int32),
    }


def read_sts_b(directory: str | os.PathLike) -> tuple[Sequence[str], Sequence[str], np.ndarray]:
    """First sentences, second sentences and scores of STS-B's dev set, in the GLUE directory or its own."""
    from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

    dev = GLUE_TASKS["STS-B"].read(directory, "dev")
    return dev.texts, dev.text_pairs, dev.labels


def score_pairs(embeddings: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """The correlations ``spearman`` and ``pearson`` of the cosine similarity of pairs with human scores, float [n].

    `embeddings` are float [2n, H]: first all first sentences, then all second ones.
    """
    similarity = cosine(embeddings[: len(scores)], embeddings[len(scores) :])
    return {"spearman": spearman(scores, similarity), "pearson": pearson(scores, similarity)}


def embedding_pipeline(
    model: "BertEncoder | str | os.PathLike",
    sentences: Sequence[str],
    sequence_length: int | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
) -> "Pipeline":
    """The pipeline of an encoder with the shortest sequence length for these sentences, to save padding.

    `model` is a `kbert.BertEncoder` loaded with its tokenizer, or a source for `kbert.load_pretrained`.
    """
    from kbert.weights.build_pipeline import build_pipeline
    from kbert.weights.load import load_pretrained

    if isinstance(model, str | os.PathLike):
        outputs = {"outputs": ("sequence_output", "pooled_output")} if pooling == "pooler" else {}
        model = load_pretrained(model, "encoder", **outputs)
    pipeline = build_pipeline(model, sequence_length=sequence_length, pair=False, pooling=pooling, normalize=normalize)
    longest = int(max(pipeline.tokenizer(sentences).row_lengths())) + 2  # [CLS] and [SEP]
    if sequence_length or longest >= pipeline.preprocessor.sequence_length:
        return pipeline
    return build_pipeline(model, sequence_length=longest, pair=False, pooling=pooling, normalize=normalize)


def embed_sentences(
    pipeline: "Pipeline", sentences: Sequence[str], batch_size: int = 32
) -> tuple[np.ndarray, dict[str, float]]:
    """The embeddings of sentences, float32 [n, H], with the number of sentences and sentences per second."""
    from kbert.training.callbacks import PredictionProgress

    start = time.monotonic()
    progress = PredictionProgress(len(sentences), batch_size)
    embeddings = pipeline.predict(sentences, batch_size, verbose=0, callbacks=[progress])["embedding"]
    seconds = time.monotonic() - start
    return embeddings, {"sentences": len(sentences), "sentences_per_second": len(sentences) / seconds}
