"""The pipelines that the tests of serving export: one of every kind, tiny."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

import kbert
from helpers.keyword_models import look_for
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer

_TEXTS = TEXTS + [b"invalid \xff\xfe utf-8 \xc3", b"nul \x00 film"]
_PAIRS = PAIRS + [b"\xf0\x9f", "good"]
_MASKED = ["Paris is [MASK].", "the [MASK] [MASK] of [MASK] [MASK]", "no mask", "", b"\xff [MASK]"]
_CHOICES = [
    ["good", "bad film", ""],
    ["", "", ""],
    ["é", "中", "\U0001f600"],
    ["a", "the", "of"],
    ["x"] * 3,
    ["is"] * 3,
]
_ANSWER = {"london": 1.0, "[CLS]": 0.5}  # where there is no london, [CLS] wins: no answer
_TAGS = ["O", "B-LOC", "I-LOC"]

# kind → (model class, its arguments, arguments of build_pipeline, columns)
KINDS = {
    "single": (
        kbert.BertClassifier,
        {"num_labels": 3},
        {"labels": ["bad", "good", "ß 中"], "sequence_length": 11},
        {"text": _TEXTS},
    ),
    "pair": (kbert.BertClassifier, {}, {"pair": True}, {"text": _TEXTS, "text_pair": _PAIRS}),
    "regression": (kbert.BertRegressor, {}, {"pair": True}, {"text": _TEXTS, "text_pair": _PAIRS}),
    "fill_mask": (kbert.BertPretrainer, {}, {"max_masks": 3, "top_k": 4}, {"text": _MASKED}),
    "next_sentence": (kbert.BertPretrainer, {"masked_lm": False}, {}, {"text": _TEXTS, "text_pair": _PAIRS}),
    "encoder": (kbert.BertEncoder, {}, {"normalize": True, "sequence_length": 13}, {"text": _TEXTS}),
    "span": (
        kbert.BertSpanExtractor,
        {},
        {"doc_stride": 7, "n_best": 3, "null_threshold": 0.0},
        {"question": _PAIRS, "context": [*_TEXTS[:-1], "a film of london\x00 !"]},
    ),
    "tagging": (kbert.BertTagger, {"num_labels": 3}, {"labels": _TAGS}, {"text": [*_TEXTS, "capital paris london"]}),
    "multiple_choice": (kbert.BertMultipleChoice, {}, {}, {"prompt": _TEXTS, "choices": _CHOICES}),
}

ON_THE_PAGE = {  # what docs/serving.md calls the models
    "reviews": "single",
    "similarity": "regression",
    "bert": "fill_mask",
    "minilm": "encoder",
    "squad": "span",
    "ner": "tagging",
    "swag": "multiple_choice",
}

_LIKE_OTHERS = ("pair", "regression", "next_sentence")  # columns as span's, signatures as single's and fill_mask's
SIGNATURES = {  # of each kind, beside serving_default
    "single": {"classify"},
    "pair": {"classify"},
    "regression": {"regress"},
    "fill_mask": {"fill_mask", "next_sentence"},
    "next_sentence": {"next_sentence"},
    "encoder": {"embed", "tokenize", "features"},
    "span": {"answer"},
    "tagging": {"tag", "entities"},
    "multiple_choice": {"choose"},
}
EXPORTED = [  # columns and signatures of every sort: of pairs regression's, next sentence fill_mask's
    pytest.param(kind, marks=pytest.mark.slow if kind in ("pair", "next_sentence") else ()) for kind in KINDS
]
SOME_KINDS = [pytest.param(kind, marks=pytest.mark.slow if kind in _LIKE_OTHERS else ()) for kind in KINDS]


@functools.cache
def make_pipeline(kind):
    """(pipeline, columns to ask it), the same ones each time, so leave them as they are.

    The weights are large enough that different texts get different answers.
    """
    make, arguments, more, columns = KINDS[kind]
    # Large enough that the weights outweigh the graph: the test of bytes on disk needs that.
    layers = 3 if kind == "encoder" else 1  # its signature `features` gives four hidden states
    config = tiny_config(hidden_dim=96, num_heads=2, intermediate_dim=384, num_layers=layers, initializer_stddev=0.1)
    model, tokenizer = make(config, **arguments), tiny_tokenizer()
    if kind == "span":
        look_for(model, tokenizer, [_ANSWER, _ANSWER])
    elif kind == "tagging":
        look_for(model, tokenizer, [{None: 0.5}, {"paris": 1.0, "capital": 1.0}, {"london": 1.0}])
    else:
        randomise(model, scale=0.2)
    return kbert.build_pipeline(model, tokenizer, **more), columns


def variable_bytes(export):
    """Size of the weights that an export stores outside its graph."""
    if not (export / "variables/variables.index").is_file():
        return 0
    reader = tf.train.load_checkpoint(str(export / "variables/variables"))
    shapes, types = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    weights = [name for name in shapes if types[name] != tf.string and not name.startswith("save_counter")]
    return sum(math.prod(shapes[name]) * types[name].size for name in weights)


def warmup_requests(export):
    """(predict, classify or regress; signature; dict of column → array of strings) of an export's warm-up requests."""
    for record in tf.data.TFRecordDataset(str(export / "assets.extra/tf_serving_warmup_requests")):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        kind = log.WhichOneof("log_type").removesuffix("_log")
        request = getattr(log, f"{kind}_log").request
        if kind == "predict":
            columns = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        else:
            examples = request.input.example_list.examples
            columns = {"inputs": np.array([example.SerializeToString() for example in examples], dtype=object)}
        yield kind, request.model_spec.signature_name, columns
