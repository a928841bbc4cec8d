"""What a served model can be asked: the signatures of each task.

Shapes: B batch, S sequence, N labels, K layers, H hidden.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from kbert.answers.embedding import EmbeddingAnswers
from kbert.answers.entities import EntityAnswers
from kbert.answers.next_sentence import NextSentenceAnswers
from kbert.answers.tags import TagAnswers
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.preprocessing.text_preprocessor import TextPreprocessor
from kbert.serving.encoder_layers import encoder_layers
from kbert.serving.example_inputs import example_inputs
from kbert.serving.limits import ServingLimits
from kbert.serving.token_list import token_list

METHODS = {kind: f"tensorflow/serving/{kind}" for kind in ("predict", "classify", "regress")}


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """One signature.

    Attributes:
        function: of the inputs, one tensor each; returns a dict of outputs, the first dimension of each is B.
        preprocess: the part of `function` before the model: of the inputs, the batch. It raises
            tf.errors.InvalidArgumentError for a request beyond the limits.
        inputs: dict of name → tf.TensorSpec, in the function's order.
        examples: requests of one row each, dict of column → string; for warm-up and the model card.
        max_rows: the most rows of S tokens that the model runs for a request.
        kind: predict, or classify or regress, which take tf.Examples with the columns as features.
    """

    function: Callable
    preprocess: Callable
    inputs: dict[str, tf.TensorSpec]
    examples: list[dict]
    max_rows: int
    kind: str = "predict"


def signatures(pipeline, layers=None, limits=None):
    """The signatures of a pipeline's SavedModel: dict of name → `ServingSignature`; serving_default among them.

    | task | signatures beside serving_default (the pipeline itself) |
    |---|---|
    | encoder | ``embed``, ``tokenize``, ``features`` |
    | pretraining, masked_lm | ``fill_mask``; with a next-sentence head ``next_sentence`` |
    | next_sentence | ``next_sentence`` |
    | classification, regression | ``classify``, ``regress`` on tf.Examples |
    | span, tagging, multiple_choice | ``answer``; ``tag``, ``entities``; ``choose`` |

    Args:
        pipeline: `kbert.Pipeline`.
        layers: of an encoder, which hidden states ``features`` gives, as indices into the L + 1 of them (0 =
            embeddings, -1 = last); None: the last four, or all where there are fewer.
        limits: `kbert.serving.limits.ServingLimits`, which every signature checks; None: those by default.

    Raises:
        ValueError: layers that the encoder does not have, or of a model that is no encoder; limits that do not allow a
            single row.
    """
    limits = limits or ServingLimits()
    task = getattr(pipeline.model, "task", None)
    named = {name: make(pipeline, limits) for name, make in _MAKERS.get(task, {}).items()}
    if layers is not None and task != "encoder":
        raise ValueError(f"features: only an encoder gives `layers`. Received: a {task} model, layers={list(layers)}")
    if task == "encoder":
        named["features"] = _features(pipeline, limits, layers)
    if task == "pretraining":
        named["next_sentence"] = _next_sentence(pipeline, limits)
    return {"serving_default": _pipeline(pipeline, limits), **named}


def _signature(pipeline, limits, finish, preprocessor=None, values_per_row=1):
    """A signature on string columns: the preprocessor's batch within the limits, then ``finish(batch, inputs)``."""
    if preprocessor is None:
        preprocessor, specs, task = pipeline.preprocessor, pipeline.string_signature(), pipeline.model.task
    else:
        specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in preprocessor.input_names}
        task = None
    examples = example_inputs(tuple(specs), task)

    def checked(columns):
        return dict(zip(specs, limits.check_bytes(columns), strict=True))

    def preprocess(*columns):
        return limits.batch(preprocessor, checked(columns), values_per_row)

    def function(*columns):
        inputs = checked(columns)
        return finish(limits.batch(preprocessor, inputs, values_per_row), inputs)

    max_rows = limits.max_rows(preprocessor.sequence_length, values_per_row)
    return ServingSignature(function, preprocess, specs, examples, max_rows)


def _on_examples(plain, limits, rename, kind):
    """A signature that takes serialised tf.Examples, with the columns of `plain` as features."""
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in plain.inputs}

    def columns(inputs):
        (inputs,) = limits.check_bytes([inputs])  # a message holds more bytes than its strings
        parsed = tf.io.parse_example(inputs, features)
        return [parsed[name] for name in plain.inputs]

    return ServingSignature(
        lambda inputs: rename(plain.function(*columns(inputs))),
        lambda inputs: plain.preprocess(*columns(inputs)),
        {"inputs": tf.TensorSpec([None], tf.string, name="inputs")},
        plain.examples,
        plain.max_rows,
        kind,
    )


def _pipeline(pipeline, limits):
    values = 1
    if pipeline.model.task in ("pretraining", "masked_lm"):
        values = pipeline.preprocessor.max_masks * pipeline.model.config.vocabulary_size  # logits [M, V]
    elif pipeline.model.task == "encoder":
        values = _hidden(pipeline, 1)
    return _signature(pipeline, limits, _finish(pipeline, pipeline.answers), values_per_row=values)


def _finish(pipeline, answers):
    return lambda batch, inputs: answers(run_in_length_buckets(pipeline.model, batch), batch)


def _classify(pipeline, limits):
    labels = list(pipeline.answers.labels)

    def rename(answers):
        scores = answers["probabilities"]  # [B, N]
        classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; a server cuts it into requests
        return {"classes": classes, "scores": scores}

    return _on_examples(_pipeline(pipeline, limits), limits, rename, "classify")


def _regress(pipeline, limits):
    return _on_examples(_pipeline(pipeline, limits), limits, lambda answers: {"outputs": answers["score"]}, "regress")


def _embed(pipeline, limits):
    own = pipeline.answers
    poolings = {name: EmbeddingAnswers(name, own.normalize) for name in ("mean", "cls", "max")}

    def finish(batch, inputs):
        outputs = run_in_length_buckets(pipeline.model, batch)
        pooled = {name: pool(outputs, batch)["embedding"] for name, pool in poolings.items()}
        return {**own(outputs, batch), **pooled}

    return _signature(pipeline, limits, finish, values_per_row=_hidden(pipeline, 1))


def _tokenize(pipeline, limits):
    return _signature(pipeline, limits, lambda batch, inputs: token_list(pipeline.preprocessor, inputs))


def _answering(make_answers):
    """A signature with one of the two answers that a tagger can give."""

    def make(pipeline, limits):
        own = pipeline.answers
        answers = own if isinstance(own, make_answers) else make_answers(list(own.labels))
        return _signature(pipeline, limits, _finish(pipeline, answers))

    return make


def _features(pipeline, limits, layers):
    model = encoder_layers(pipeline.model.encoder, layers)

    def finish(batch, inputs):
        features = run_in_length_buckets(model, batch)["features"]  # [B, S, K, H]
        features = tf.where(batch["padding_mask"][:, :, tf.newaxis, tf.newaxis], features, 0.0)
        tokens = token_list(pipeline.preprocessor, inputs)
        return {"features": features, "tokens": tokens["tokens"], "count": tokens["count"]}

    return _signature(pipeline, limits, finish, values_per_row=_hidden(pipeline, model.output["features"].shape[2]))


def _hidden(pipeline, states):
    """Floats of a row of hidden states [S, K, H]."""
    return pipeline.preprocessor.sequence_length * states * pipeline.model.config.hidden_dim


def _next_sentence(pipeline, limits):
    """The next-sentence head of a model whose pipeline fills masks."""
    model, tokenizer = pipeline.model, pipeline.tokenizer
    settings = pipeline.settings()["tokenizer"]  # the model's own: fill-mask reads [MASK] in the text, whatever it says
    if settings != tokenizer.settings():
        tokenizer = type(tokenizer)(tokenizer.vocabulary, **settings)
    preprocessor = TextPreprocessor(tokenizer, pipeline.preprocessor.sequence_length, pair=True)
    head, answers = _head(model, "nsp_logits"), NextSentenceAnswers()

    def finish(batch, inputs):
        return answers(run_in_length_buckets(head, batch), batch)

    return _signature(pipeline, limits, finish, preprocessor)


def _head(model, output):
    """The part of a model that one output needs; it shares the model's layers."""
    import keras

    inputs = {name: model.input[name] for name in model.encoder.input}
    return keras.Model(inputs, {output: model.output[output]})


_MAKERS = {
    "encoder": {"embed": _embed, "tokenize": _tokenize},
    "pretraining": {"fill_mask": _pipeline},
    "masked_lm": {"fill_mask": _pipeline},
    "next_sentence": {"next_sentence": _pipeline},
    "classification": {"classify": _classify},
    "regression": {"regress": _regress},
    "span": {"answer": _pipeline},
    "tagging": {"tag": _answering(TagAnswers), "entities": _answering(EntityAnswers)},
    "multiple_choice": {"choose": _pipeline},
}
