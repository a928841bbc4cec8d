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
from kbert.data.text_preprocessor import TextPreprocessor
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.serving.encoder_layers import encoder_layers
from kbert.serving.example_inputs import example_inputs
from kbert.serving.token_list import token_list

METHODS = {kind: f"tensorflow/serving/{kind}" for kind in ("predict", "classify", "regress")}


@dataclasses.dataclass(frozen=True)
class ServingSignature:
    """One signature.

    Attributes:
        function: of the inputs, one tensor each; returns a dict of outputs, the first dimension of each is B.
        inputs: dict of name → tf.TensorSpec, in the function's order.
        examples: requests of one row each, dict of column → string; for warm-up and the model card.
        kind: predict, or classify or regress, which take tf.Examples with the columns as features.
    """

    function: Callable
    inputs: dict[str, tf.TensorSpec]
    examples: list[dict]
    kind: str = "predict"


def signatures(pipeline, layers=(-1, -2, -3, -4)):
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
        layers: which hidden states ``features`` gives, as indices into the L + 1 of them (0 = embeddings, -1 = last);
            those that a small encoder does not have are left out.

    Raises:
        ValueError: none of the layers exists.
    """
    task = getattr(pipeline.model, "task", None)
    named = {name: make(pipeline) for name, make in _MAKERS.get(task, {}).items()}
    if task == "encoder":
        named["features"] = _features(pipeline, layers)
    if task == "pretraining":
        named["next_sentence"] = _next_sentence(pipeline)
    return {"serving_default": _pipeline(pipeline), **named}


def _pipeline(pipeline):
    return _predict(pipeline, lambda inputs: pipeline(inputs, training=False))


def _predict(pipeline, answer):
    """A signature that takes the pipeline's own columns."""
    specs = pipeline.string_signature()
    examples = example_inputs(tuple(specs), getattr(pipeline.model, "task", None))
    return ServingSignature(_by_name(answer, specs), specs, examples)


def _by_name(answer, specs):
    def function(*columns):
        return answer(dict(zip(specs, columns, strict=True)))

    return function


def _on_examples(pipeline, answer, kind):
    """A signature that takes serialised tf.Examples, with the pipeline's columns as features."""
    plain = _predict(pipeline, answer)
    features = {name: tf.io.FixedLenFeature([], tf.string) for name in plain.inputs}

    def function(inputs):
        return answer(tf.io.parse_example(inputs, features))

    return ServingSignature(function, {"inputs": tf.TensorSpec([None], tf.string, name="inputs")}, plain.examples, kind)


def _classify(pipeline):
    labels = list(pipeline.answers.labels)

    def answer(inputs):
        scores = pipeline(inputs, training=False)["probabilities"]  # [B, N]
        classes = tf.tile(tf.constant([labels]), [tf.shape(scores)[0], 1])  # [B, N]; a server cuts it into requests
        return {"classes": classes, "scores": scores}

    return _on_examples(pipeline, answer, "classify")


def _regress(pipeline):
    def answer(inputs):
        return {"outputs": pipeline(inputs, training=False)["score"]}

    return _on_examples(pipeline, answer, "regress")


def _embed(pipeline):
    own = pipeline.answers
    poolings = {name: EmbeddingAnswers(name, own.normalize) for name in ("mean", "cls", "max")}

    def answer(inputs):
        batch = pipeline.preprocessor(inputs)
        outputs = run_in_length_buckets(pipeline.model, batch)
        pooled = {name: pool(outputs, batch)["embedding"] for name, pool in poolings.items()}
        return {**own(outputs, batch), **pooled}

    return _predict(pipeline, answer)


def _tokenize(pipeline):
    return _predict(pipeline, lambda inputs: token_list(pipeline.preprocessor, inputs))


def _answering(make_answers):
    """A signature with one of the two answers that a tagger can give."""

    def make(pipeline):
        own = pipeline.answers
        answers = own if isinstance(own, make_answers) else make_answers(list(own.labels))

        def answer(inputs):
            batch = pipeline.preprocessor(inputs)
            return answers(run_in_length_buckets(pipeline.model, batch), batch)

        return _predict(pipeline, answer)

    return make


def _features(pipeline, layers):
    model = encoder_layers(pipeline.model.encoder, layers)

    def answer(inputs):
        batch = pipeline.preprocessor(inputs)
        features = run_in_length_buckets(model, batch)["features"]  # [B, S, K, H]
        features = tf.where(batch["padding_mask"][:, :, tf.newaxis, tf.newaxis], features, 0.0)
        tokens = token_list(pipeline.preprocessor, inputs)
        return {"features": features, "tokens": tokens["tokens"], "count": tokens["count"]}

    return _predict(pipeline, answer)


def _next_sentence(pipeline):
    """The next-sentence head of a model whose pipeline fills masks, or is one for next sentences itself."""
    model, tokenizer = pipeline.model, pipeline.tokenizer
    settings = {**tokenizer.settings(), "special_tokens_in_text": False}  # only fill-mask reads [MASK] in the text
    if settings != tokenizer.settings():
        tokenizer = type(tokenizer)(tokenizer.vocabulary, **settings)
    preprocessor = TextPreprocessor(tokenizer, pipeline.preprocessor.sequence_length, pair=True)
    head, answers = _head(model, "nsp_logits"), NextSentenceAnswers()

    def answer(inputs):
        batch = preprocessor(inputs)
        return answers(run_in_length_buckets(head, batch), batch)

    specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in preprocessor.input_names}
    examples = example_inputs(preprocessor.input_names, "next_sentence")
    return ServingSignature(_by_name(answer, specs), specs, examples)


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
