"""An encoder alone: texts or pairs → embeddings, and as a served model hidden states and tokens.

Shapes: B batch, S sequence, L layers, H hidden.
"""

import dataclasses
from typing import Literal

from kbert.pipelines.task_signature import TaskSignature
from kbert.tasks.task import Task, of_model


@dataclasses.dataclass(frozen=True)
class Encoder(Task):
    """Gives the ``embedding`` of a text.

    A served encoder also offers ``embed`` (all poolings), ``tokenize`` and ``features``.

    Args:
        pair: whether the texts come in pairs.
        pooling: how hidden states become an embedding (`kbert.answers.EmbeddingAnswers`).
        normalize: whether embeddings are scaled to length 1.
    """

    pair: bool = of_model(False)
    pooling: Literal["mean", "max", "cls", "pooler"] = of_model("mean")
    normalize: bool = of_model(False)

    name = "encoder"
    is_finetuned = False
    stands_on_encoder = False
    playground_views = ()

    @classmethod
    def model_class(cls):
        from kbert.models.encoder import BertEncoder

        return BertEncoder

    def parts(self, model, tokenizer, sequence_length):
        from kbert.answers.embedding import EmbeddingAnswers
        from kbert.preprocessing.text_preprocessor import TextPreprocessor

        preprocessor = TextPreprocessor(tokenizer, sequence_length, self.pair, name="preprocessor")
        return preprocessor, EmbeddingAnswers(self.pooling, self.normalize, name="answers")

    @classmethod
    def exported_answers(cls, labels, outputs):
        from kbert.answers.embedding import EmbeddingAnswers

        return EmbeddingAnswers()

    @classmethod
    def signatures(cls, pipeline, *, layers=None):
        """The signatures of an encoder.

        Args:
            layers: which hidden states ``features`` has.
        """
        from kbert.tasks.encoder.features import token_list

        return {
            "embed": _embed(pipeline),
            "tokenize": TaskSignature(lambda batch, inputs: token_list(pipeline.preprocessor, inputs)),
            "features": _features(pipeline, layers),
        }

    @classmethod
    def values_per_row(cls, pipeline):
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
    from kbert.tasks.encoder.features import encoder_layers, token_list

    model = encoder_layers(pipeline.model.encoder, layers)

    def finish(batch, inputs):
        outputs = run_in_length_buckets(model, batch, token_outputs=("features",))
        features = tf.where(batch["padding_mask"][:, :, tf.newaxis, tf.newaxis], outputs["features"], 0.0)
        tokens = token_list(pipeline.preprocessor, inputs)
        return {"features": features, "tokens": tokens["tokens"], "count": tokens["count"]}  # [B, S, L, H]

    return TaskSignature(finish, values_per_row=_hidden(pipeline, model.output["features"].shape[2]))


def _hidden(pipeline, states: int) -> int:
    """Floats of a row of hidden states [S, L, H]."""
    return pipeline.preprocessor.sequence_length * states * pipeline.model.config.hidden_dim
