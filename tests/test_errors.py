"""Errors that a user can fix are marked at the door of a public function, and keep their class."""

import json
import pickle

import pytest
import tensorflow as tf

from kbert.errors import SetupError, UnreadableInput, UserError, internal_errors, user_errors
from kbert.options import Count, checked


def _number(text):
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"expected JSON: {text}") from None


def _fails(error):
    raise error


@pytest.mark.parametrize(
    "fail",
    [
        lambda: open("/none/x"),
        lambda: b"\xff".decode(),
        lambda: json.loads("{"),
        lambda: _number("{"),
        lambda: _fails(FloatingPointError("loss is NaN")),
        lambda: _fails(FileExistsError("exists")),
    ],
)
def test_an_error_of_the_input_is_marked_and_keeps_its_class(fail):
    with pytest.raises(Exception) as plain:  # noqa: PT011
        fail()
    with pytest.raises(type(plain.value)) as error, user_errors():
        fail()
    marked = error.value
    assert isinstance(marked, UserError) and type(marked).__name__ == type(plain.value).__name__
    assert str(marked) == str(plain.value)
    assert error.traceback[-1].name == plain.traceback[-1].name  # where it was raised
    assert type(pickle.loads(pickle.dumps(marked))) is type(plain.value)
    assert vars(marked).keys() == vars(plain.value).keys()
    assert getattr(marked, "filename", None) == getattr(plain.value, "filename", None)


@pytest.mark.parametrize("error", [TypeError("a"), KeyError("a"), AttributeError("a"), RuntimeError("a")])
def test_a_bug_is_not_marked(error):
    with pytest.raises(type(error)) as raised, user_errors():
        raise error
    assert raised.value is error


def test_errors_of_training_are_bugs_unless_they_are_marked():
    with pytest.raises(ValueError, match="shape") as raised, user_errors(), internal_errors():
        raise ValueError("shape")
    assert not isinstance(raised.value, UserError)
    for error in (SetupError("no TPU"), UnreadableInput("damaged"), OSError(28, "full")):
        with pytest.raises(type(error)) as raised, user_errors(), internal_errors():
            raise error
        assert isinstance(raised.value, UserError)


def test_what_caused_an_error_is_shown():
    with pytest.raises(ValueError, match="b") as error, user_errors():
        try:
            {}["a"]
        except KeyError as cause:
            raise ValueError("b") from cause
    assert isinstance(error.value.__cause__, KeyError)
    with pytest.raises(ValueError, match="expected JSON") as error, user_errors():
        _number("{")
    assert error.value.__cause__ is None and error.value.__suppress_context__


def test_errors_within_a_dataset_are_those_of_its_files():
    def read(name):
        raise ValueError(f"{name.decode()} is damaged")

    dataset = tf.data.Dataset.from_tensors("a.txt").map(lambda name: tf.numpy_function(read, [name], tf.int32))
    with pytest.raises(UnreadableInput, match="^a.txt is damaged$"), user_errors():
        list(dataset)


def test_a_checked_function_marks_its_errors():
    @checked
    def train(steps: Count = 3):
        raise ValueError(f"{steps} steps")

    for call in (train, lambda: train(0)):
        with pytest.raises(ValueError, match="steps") as error:
            call()
        assert isinstance(error.value, UserError)
