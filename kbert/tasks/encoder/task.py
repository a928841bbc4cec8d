"""An encoder alone: texts or pairs → embeddings, and as a served model hidden states and tokens.

Shapes: B batch, S sequence, L layers, H hidden.
"""

import tensorflow as tf

from kbert.answers.embedding import EmbeddingAnswers
from kbert.models.encoder import BertEncoder
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import TaskSignature
from kbert.preprocessing.text_preprocessor import TextPreprocessor
from kbert.tasks.encoder.features import encoder_layers, token_list


class EncoderPipeline(TaskPipeline):
    """``embedding`` of a text; served also ``embed`` (all poolings), ``tokenize`` and ``features``."""

    task = "encoder"
    model_class = BertEncoder
    stands_on_encoder = False
    options = ("pair", "pooling", "normalize")

    def parts(self, model, tokenizer, settings):
        preprocessor = TextPreprocessor(tokenizer, settings["sequence_length"], settings["pair"], name="preprocessor")
        return preprocessor, EmbeddingAnswers(settings["pooling"], settings["normalize"], name="answers")

    def exported_answers(self, labels, outputs):
        return EmbeddingAnswers()

    def signatures(self, pipeline, *, layers=None):
        """The signatures of an encoder."""
        return {
            "embed": self._embed(pipeline),
            "tokenize": TaskSignature(lambda batch, inputs: token_list(pipeline.preprocessor, inputs)),
            "features": self._features(pipeline, layers),
        }

    def values_per_row(self, pipeline):
        return _hidden(pipeline, 1)

    def _embed(self, pipeline):
        own = pipeline.answers
        poolings = {name: EmbeddingAnswers(name, own.normalize) for name in ("mean", "cls", "max")}

        def finish(batch, inputs):
            outputs = run_in_length_buckets(pipeline.model, batch)
            pooled = {name: pool(outputs, batch)["embedding"] for name, pool in poolings.items()}
            return {**own(outputs, batch), **pooled}

        return TaskSignature(finish, values_per_row=_hidden(pipeline, 1))

    def _features(self, pipeline, layers):
        model = encoder_layers(pipeline.model.encoder, layers)

        def finish(batch, inputs):
            outputs = run_in_length_buckets(model, batch, token_outputs=("features",))
            features = tf.where(batch["padding_mask"][:, :, tf.newaxis, tf.newaxis], outputs["features"], 0.0)
            tokens = token_list(pipeline.preprocessor, inputs)
            return {"features": features, "tokens": tokens["tokens"], "count": tokens["count"]}  # [B, S, L, H]

        return TaskSignature(finish, values_per_row=_hidden(pipeline, model.output["features"].shape[2]))


def _hidden(pipeline, states):
    """Floats of a row of hidden states [S, L, H]."""
    return pipeline.preprocessor.sequence_length * states * pipeline.model.config.hidden_dim


PIPELINE = EncoderPipeline()
