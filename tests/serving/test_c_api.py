"""Python-free proof: each export, loaded through the C API with two op libraries of tf-text, answers as Python does."""

import os

import numpy as np
import pytest
from helpers.c_api import ask, compile_program, op_libraries
from helpers.compare import assert_same_answers
from helpers.served_models import KINDS

from kbert.serving.warmup import encode_example

# Not optional: .ci/run installs a compiler, and a test that skips there fails.
pytestmark = pytest.mark.parity


def rows_of(columns, rows=slice(None)):
    return {name: np.array(column, dtype=object)[rows] for name, column in columns.items()}


def inputs_for(name, signature, columns):
    """The columns as the signature takes them."""
    if signature.kind != "predict":
        rows = zip(*columns.values(), strict=True)
        return {"inputs": np.array([encode_example(dict(zip(columns, row, strict=True))) for row in rows], object)}
    if set(signature.inputs) == set(columns):
        return columns
    return {"text": columns["text"], "text_pair": columns["text"][::-1]}  # next_sentence beside fill_mask


# The other kinds' answers out of their SavedModels: test_exported_pipeline.py; their operations: test_audit.py.
QUICK = ("single",)


@pytest.mark.parametrize(
    "served", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in KINDS], indirect=True
)
def test_answers_of_every_signature_equal_those_of_python(served, program):
    columns = rows_of(served.columns)
    one, none = rows_of(served.columns, slice(1, 2)), rows_of(served.columns, slice(0, 0))
    wanted = served.signatures
    requests = {name: inputs_for(name, one_signature, columns) for name, one_signature in wanted.items()}
    more = [("serving_default", one), ("serving_default", none)]
    *answers, of_one, of_none = ask(program, served.path, [*requests.items(), *more])
    for (name, inputs), answer in zip(requests.items(), answers, strict=True):
        assert not isinstance(answer, str), f"{name}: {answer}"
        assert_same_answers(answer, wanted[name].function(*inputs.values()))
    expected = {name: np.asarray(value) for name, value in served.pipeline(columns).items()}
    for answer, rows in ((answers[0], slice(None)), (of_one, slice(1, 2)), (of_none, slice(0, 0))):
        some = {name: value[rows] for name, value in expected.items()}
        if served.kind == "tagging":  # as wide as the longest text asked
            width = answer["tags"].shape[1]
            some = {name: value[:, :width] if value.ndim == 2 else value for name, value in some.items()}
        assert_same_answers(answer, some)


def test_what_is_no_example_is_an_error_and_the_next_request_is_answered(served_models, program):
    served = served_models["single"]
    good = encode_example({"text": "good"})
    requests = [("classify", {"inputs": [good, wrong]}) for wrong in (b"no proto", encode_example({"words": "x"}))]
    errors_and_answer = ask(program, served.path, [*requests, ("classify", {"inputs": [good]})])
    assert "Could not parse example input" in errors_and_answer[0]
    assert "Feature: text (data type: string) is required but could not be found" in errors_and_answer[1]
    assert errors_and_answer[2]["classes"].tolist() == [[b"bad", b"good", "ß 中".encode()]]


def test_a_server_without_the_ops_refuses_the_model(served_models, program):
    path = served_models["single"].path
    with pytest.raises(RuntimeError, match="Op type not registered 'FastWordpieceTokenizeWithOffsets'"):
        ask(program, path, [], libraries=op_libraries(["_normalize_ops.so"]))


@pytest.mark.slow
def test_the_oldest_server(served, tmp_path):
    """TensorFlow 2.12.0 and tensorflow-text 2.12.1 are what tensorflow_model_server 2.12 is made of."""
    home = os.environ.get("KBERT_TENSORFLOW_2_12")
    if not home:
        pytest.skip(
            "unpack the wheels of tensorflow-cpu 2.12.0 and tensorflow-text 2.12.1 (pip download --no-deps, python -m "
            "zipfile -e) into one directory, and name it in KBERT_TENSORFLOW_2_12"
        )
    program = compile_program(tmp_path, f"{home}/tensorflow")
    libraries = op_libraries(home=f"{home}/tensorflow_text")
    [answers] = ask(program, served.path, [("serving_default", rows_of(served.columns))], libraries)
    assert_same_answers(answers, served.pipeline(served.columns))
