"""The flags, errors and records that programs share."""

import argparse
import dataclasses
import inspect
import os
import pathlib
import re
import sys

import pytest
import tensorflow as tf

import kbert
from kbert.command_line import (
    add_finetuning_flags,
    add_flags,
    inputs_of,
    make_parser,
    model_source,
    plain_errors,
    run_program,
    settings_of,
)
from kbert.finetuning.finetuning import Finetuning
from kbert.finetuning.finetuning_options import FinetuningOptions


def _parser(*names, **overrides):
    parser = argparse.ArgumentParser()
    add_flags(parser, *names, **overrides)
    return parser


def test_every_flag_of_the_design_explains_itself():
    names = ("init", "output", "epochs", "steps", "batch-size", "learning-rate", "sequence-length", "seed", "strategy")
    names += ("logical-cpus", "precision", "keep", "log-dir", "profile", "json", "overwrite", "dry-run")
    parser = _parser(*names, epochs={"default": 3.0})
    help_text = parser.format_help()
    assert all(f"--{name}" in help_text for name in names)
    assert all(action.help for action in parser._actions)
    assert "(default: 3.0)" in help_text
    args = parser.parse_args(["--output", "out"])
    assert (args.epochs, args.batch_size, args.seed, args.strategy, args.json) == (3.0, 32, 0, "auto", False)


@pytest.mark.parametrize(
    "flag, value, message",
    [
        ("steps", "0", "at least 1. Received: 0"),
        ("steps", "1.5", "at least 1. Received: 1.5"),
        ("batch-size", "-3", "at least 1. Received: -3"),
        ("epochs", "0", "above 0. Received: 0"),
        ("learning-rate", "nan", "above 0. Received: nan"),
        ("strategy", "two", "invalid choice"),
        ("precision", "float16", "invalid choice"),
        ("profile", "5:2", "`profile` must be steps .* Received: '5:2'"),
        ("init", "no/where/at/all", "Expected the path of a model. Received: 'no/where/at/all', which does not exist"),
    ],
)
def test_what_is_wrong_is_said_before_anything_else(capsys, flag, value, message):
    with pytest.raises(SystemExit):
        _parser(flag).parse_args([f"--{flag}", value])
    assert re.search(message, capsys.readouterr().err)


def test_the_defaults_of_fine_tuning_are_the_same_everywhere():
    """Of `kbert.finetune`, whose signature shows them, of its options, and of the flags, for help without Keras."""
    parameters = inspect.signature(kbert.finetune).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.kind is one.KEYWORD_ONLY}
    options = {field.name: field.default for field in dataclasses.fields(FinetuningOptions)}
    others = inspect.signature(Finetuning).parameters.values()
    own = {one.name: one.default for one in others if one.name in defaults}
    assert defaults == options | own and not options.keys() & own.keys()
    parser = argparse.ArgumentParser()
    add_finetuning_flags(parser)
    arguments = vars(parser.parse_args(["--init", "owner/bert", "--output", "out"]))
    assert {name for name in defaults if name not in arguments} == {"class_weight", "callbacks", "more_dev"}
    flags = {name: value for name, value in arguments.items() if name in defaults}
    assert flags.pop("sequence_length") == 128  # of the model if not given in Python
    assert flags == {name: defaults[name] for name in flags}


def test_factors_of_labels(capsys):
    parser = _parser("class-weight")
    parsed = [parser.parse_args(["--class-weight", *words]).class_weight for words in (["balanced"], ["a=b=2", "c=.5"])]
    assert parsed == ["balanced", {"a=b": 2.0, "c": 0.5}]
    assert parser.parse_args([]).class_weight is None
    for words in (["balance"], ["balanced", "a=2"], ["a=x"], ["a=-1"], ["a=inf"], ["=2"], ["a=1", "a=2"]):
        with pytest.raises(SystemExit):
            parser.parse_args(["--class-weight", *words])
        expected = "expected balanced, or different LABEL=X with numbers of at least 0. Received: " + " ".join(words)
        assert expected in capsys.readouterr().err


def test_a_recipe_output_stands_for_the_model_in_it(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert model_source(str(tmp_path)) == tmp_path / "model"
    assert model_source(str(tmp_path / "model")) == tmp_path / "model"


def test_flags_are_not_abbreviated(capsys):
    """`run_program` looks for --dry-run, and a new flag would change what an abbreviation means."""
    parser = make_parser("A program.")
    add_flags(parser, "dry-run")
    with pytest.raises(SystemExit):
        parser.parse_args(["--dry"])
    assert "unrecognized arguments: --dry" in capsys.readouterr().err and parser.parse_args(["--dry-run"]).dry_run


def test_an_error_is_one_line_and_a_hint(capsys):
    parser = make_parser("A program.")
    add_flags(parser, "init", "steps")
    parser.prog = "train.py"
    for arguments in (["--steps", "0"], ["--init", "no/where/at/all"], ["--epoch", "3"]):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(arguments)
        error, hint = capsys.readouterr().err.splitlines()
        assert ended.value.code == 2 and error.startswith("error: ") and arguments[0] in error
        assert hint == "(train.py --help describes all flags)"


def test_overrides_are_for_flags_that_are_there():
    with pytest.raises(ValueError, match="Received: .'learning_rate'"):
        _parser("seed", learning_rate={"default": 1.0})


def test_settings_are_what_decides_the_result():
    parser = _parser("output", "seed", "json", "log-dir", "overwrite", "batch-size")
    args = parser.parse_args(["--output", "a", "--json", "--log-dir", "b", "--overwrite", "--seed", "3"])
    args.init = pathlib.Path("runs") / "tiny"
    assert settings_of(args) == {"batch_size": 32, "init": str(args.init), "seed": 3}
    assert settings_of(args, "seed") == {"batch_size": 32, "init": str(args.init)}


def test_inputs_are_paths_and_models(tmp_path):
    args = argparse.Namespace(
        data=tmp_path, output=tmp_path / "out", init="owner/bert", model=[tmp_path, "owner/bert"], label="owner/bert"
    )
    assert inputs_of(args) == {"data": tmp_path, "init": "owner/bert", "model": [tmp_path, "owner/bert"]}
    assert inputs_of(args, data=["a"])["data"] == ["a"]


def test_plain_errors_are_one_line():
    with pytest.raises(SystemExit, match="^error: a.csv, line 3: no$"), plain_errors():
        raise ValueError("a.csv, line 3: no")
    with pytest.raises(SystemExit, match="^error: strategy tpu needs a TPU$"), plain_errors():
        raise RuntimeError("strategy tpu needs a TPU")
    with pytest.raises(KeyError), plain_errors():
        raise KeyError("a bug keeps its traceback")


def test_an_error_of_a_reader_inside_tf_data_is_one_line_too():
    def damaged():
        yield 1
        raise ValueError("Cannot read a.gz: cut short.")

    dataset = tf.data.Dataset.from_generator(damaged, output_signature=tf.TensorSpec((), tf.int32))
    with pytest.raises(SystemExit, match="^error: Cannot read a.gz: cut short.$"), plain_errors():
        list(dataset)
    with pytest.raises(tf.errors.InvalidArgumentError), plain_errors():
        tf.reshape(tf.zeros(3), [2])


def test_a_model_of_another_library_stands_for_itself(tmp_path):
    (tmp_path / "bert_config.json").write_text("{}")
    (tmp_path / "bert_model.ckpt.index").write_text("")
    assert model_source(str(tmp_path)) == tmp_path
    assert model_source(str(tmp_path / "bert_model.ckpt")) == tmp_path / "bert_model.ckpt"


def test_a_name_on_the_hub_is_a_source_and_a_path_that_is_not_there_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("bert-base-uncased", "google-bert/bert-base-uncased", "google-bert/bert-base-uncased@v1"):
        assert model_source(name) == name
    assert model_source("./runs") == pathlib.Path("runs")
    with pytest.raises(argparse.ArgumentTypeError, match="A number after @ is the step of a run"):
        model_source("elsewhere/tiny@20000")
    for path in ("runs/tyni", "bert_model.ckpt", str(tmp_path / "none")):
        with pytest.raises(argparse.ArgumentTypeError, match="which does not exist"):
            model_source(path)


@pytest.fixture
def command(monkeypatch):
    """`run_program`, which leaves the signals of this process alone."""
    monkeypatch.setattr("kbert.training.signals.take_signals", lambda handler: {})
    return run_program


def test_a_disk_fault_ends_a_command_with_one_line(command, monkeypatch, capsys):
    def main():
        raise OSError(5, "Input/output error", "runs/tiny/history.jsonl")

    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        command(main)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: [Errno 5] Input/output error: 'runs/tiny/history.jsonl'\n"


@pytest.mark.parametrize("kind", ["UnreadableInput", "OutOfMemory"])
def test_what_befalls_a_training_ends_it_with_one_line(command, kind):
    from kbert.corpus.reading_errors import UnreadableInput
    from kbert.training.batch_memory import OutOfMemory

    def main():
        raise {"UnreadableInput": UnreadableInput, "OutOfMemory": OutOfMemory}[kind]("train-00000.tokens is damaged")

    with pytest.raises(SystemExit, match="^error: train-00000.tokens is damaged$"):
        command(main)

    def wrong():
        raise ValueError("a fault of the program")

    with pytest.raises(ValueError, match="a fault of the program"):
        command(wrong)
