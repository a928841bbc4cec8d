"""Batches that are written, and a pre-training on them: around what tests/training/test_jax_training.py shows."""

import json

import keras
import pytest
import tensorflow as tf
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401 - fixtures
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.config import default_max_predictions
from kbert.pretraining import write_batches
from kbert.pretraining.run import corpus_data
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.training import dry_run

QUICK = ("--batch-size", 4, "--sequence-length", 16, "--max-predictions", 2, "--evaluation-batches", 2)


@pytest.fixture(scope="module")
def batches(records, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("written") / "batches"
    run_kbert("batches", records, "--output", directory, "--steps", 4, *QUICK, "--whole-word", "--packed")
    return directory


@pytest.fixture
def no_steps(monkeypatch):
    """A dry run does all but the steps that it measures: pretraining/run/test_pretrain.py has them."""
    monkeypatch.setattr(dry_run, "mean_seconds_per_step", lambda *arguments: 0.1)


@pytest.mark.slow  # test_masks_and_packing_are_those_of_kbert_pretrain
@pytest.mark.usefixtures("eagerly", "no_steps")  # traced: training/test_jax_training.py, slow
def test_writes_and_trains(batches, tmp_path, capsys):
    manifest = read_json(batches / "batches.json")
    assert manifest["whole_word"] is manifest["packed"] is True and "inputs/part_ids" in manifest["arrays"]
    arguments = (batches, "--output", tmp_path / "run", "--checkpoint-every", 4, "--dropout", 0)
    run_kbert("pretrain", *arguments, "--json")
    printed = capsys.readouterr().out
    assert "held-out masked tokens: loss" in printed
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert json.loads(printed.splitlines()[-1]) == metrics and metrics["steps"] == 4
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"model", "metrics.json", "settings.json", "inputs.json", "history.jsonl", "logs"}
    assert kbert.load_pretrained(tmp_path / "run").pretrained.settings.sequence_length == 16
    with pytest.raises(SystemExit, match="holds the finished run"):
        run_kbert("pretrain", *arguments)
    run_kbert("pretrain", "--config", tmp_path / "run" / "settings.json", "--dry-run")
    more = (*arguments, "--overwrite", "--init", tmp_path / "run", "--steps", 2)
    with pytest.raises(SystemExit, match="init"):
        run_kbert("pretrain", *more, "--size", "tiny")
    more = (batches, "--output", tmp_path / "next", "--init", tmp_path / "run", "--steps", 1)
    run_kbert("pretrain", *more)
    made_by = read_json(tmp_path / "next" / "model" / "kbert.json")["made_by"]
    assert made_by["inputs"]["init"]["made_by"]["metrics"] == metrics


@pytest.mark.usefixtures("eagerly", "no_steps")
def test_a_dry_run_writes_nothing(batches, tmp_path, capsys):
    run_kbert(
        "pretrain", batches, "--output", tmp_path / "run", "--steps", 3, "--whole-word", "--dry-run"
    )  # as written
    lines = capsys.readouterr().out.splitlines()
    assert "parameters" in lines[0] and lines[1] == "3 steps of 4 rows of 16 tokens: 192 tokens"
    assert lines[2].startswith("memory: about") and lines[3].startswith("time: about")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"mask_rate": 0.3, "batch_size": 8},
            "were drawn and masked when.* Received: {'batch_size': 8, 'mask_rate': 0.3} as well",
        ),
        ({"phases": [(16, 0.5), (24, 0.5)], "steps": 2}, "Received: {.*'phases': "),
        ({"steps": None, "hours": 1.0}, "Received: {'hours': 1.0} as well"),
        ({"init": kbert.BertPretrainer}, "`init` must be a model directory.* Received: type"),
    ],
)
def test_what_batches_have_decided_is_named(batches, arguments, message):
    with pytest.raises(ValueError, match=f"pretrain: .*{message}"):
        kbert.pretrain(batches, **{"steps": 1} | arguments)


@pytest.mark.usefixtures("eagerly", "no_steps")
def test_the_dtype_policy_is_the_callers_again(batches, tmp_path):
    options = {"precision": "mixed_bfloat16", "steps": 1, "dry_run": True}
    found = kbert.pretrain(batches, **options)
    assert found.model.dtype_policy.name == "mixed_bfloat16" and keras.config.dtype_policy().name == "float32"
    with pytest.raises(ValueError, match="`init` must be a model directory"):
        kbert.pretrain(batches, **options, init=tmp_path)
    assert keras.config.dtype_policy().name == "float32"


SIZES = {"steps": 1, "batch_size": 2, "sequence_length": 64, "evaluation_batches": 1}


def test_masks_and_packing_are_those_of_kbert_pretrain(records, tmp_path, monkeypatch):  # noqa: F811
    given = {}
    monkeypatch.setattr(corpus_data, "packing_pays", lambda records, data: given.update(vars(data)) or False)
    rates = {"mask_rate": 0.3, "random_next_rate": 0.25}
    manifest = write_batches(records, tmp_path / "batches", **SIZES, **rates)
    assert given.items() >= rates.items()
    assert manifest["max_predictions"] == default_max_predictions(64, 0.3) == 20


def test_errors_name_the_verb(records, tmp_path):  # noqa: F811
    wrong_inputs(
        lambda change: write_batches(records, tmp_path / "batches", **SIZES, **change),
        ({"fill_rows": True, "packed": False}, "^write_batches: `fill_rows` is for packed rows"),
        ({"next_sentence": False, "random_next_rate": 0.3}, "^write_batches: `random_next_rate` is for next"),
    )
    assert not list(tmp_path.iterdir())


def test_rows_are_filled(records, tmp_path, monkeypatch):  # noqa: F811
    """The rows themselves: pretraining/test_further_parts.py."""
    asked = []

    def one_batch(data, *_, **which):
        asked.append((data.packed, data.fill_rows))
        return tf.data.Dataset.from_tensors(({"token_ids": [[1]]}, {"mlm_logits": [[1]]}, {"mlm_logits": [[1]]}))

    monkeypatch.setattr(CorpusData, "batches", one_batch)
    filled = write_batches(records, tmp_path / "filled", fill_rows=True, **SIZES)
    assert filled["packed"] is filled["fill_rows"] is True and asked == [(True, True)] * 2


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_another_program_writes_to_the_output_meanwhile_stays(records, tmp_path, monkeypatch, overwrite):  # noqa: F811
    output = tmp_path / "batches"

    def meanwhile(data, *_, **which):
        with pytest.raises(BlockingIOError, match="batches is in use by process"):
            write_batches(records, output, overwrite=overwrite, **SIZES)
        output.mkdir(exist_ok=True)
        (output / "thesis.tex").write_text("text")
        return tf.data.Dataset.from_tensors(({"token_ids": [[1]]}, {"mlm_logits": [[1]]}, {"mlm_logits": [[1]]}))

    monkeypatch.setattr(CorpusData, "batches", meanwhile)
    with pytest.raises(FileExistsError, match="batches: expected a new directory, .* Received: .'thesis.tex'."):
        write_batches(records, output, overwrite=overwrite, **SIZES)
    assert [entry.name for entry in tmp_path.rglob("*")] == ["batches", "thesis.tex"]


def test_what_is_refused(batches, records, tmp_path):  # noqa: F811
    arguments = (records, "--output", batches, "--steps", 2, *QUICK)
    with pytest.raises(SystemExit, match="error: .*batches"):
        run_kbert("batches", *arguments)
    with pytest.raises(SystemExit, match="`init` must be a model directory.* Received"):
        run_kbert("pretrain", batches, "--init", tmp_path, "--output", tmp_path / "run")
    tokenizer = kbert.BertTokenizer(batches / "vocab.txt")  # noqa: F811
    model = kbert.BertPretrainer(tiny_config(num_layers=1, vocabulary_size=tokenizer.vocabulary_size))
    tokens, cased = list(tokenizer.vocabulary), kbert.BertTokenizer(tokenizer.vocabulary, lowercase=False)
    tokens[-2:] = reversed(tokens[-2:])
    size = len(tokens)
    for other, message in (
        (kbert.BertTokenizer(tokens), f"vocabulary of `init`.* Received: {size} tokens, which are not the {size} of"),
        (cased, "tokenizer settings of `init`. Received: lowercase=True instead of False, strip_accents=True inst"),
    ):
        kbert.save_pretrained(model, tmp_path / "other", tokenizer=other, overwrite=True)
        with pytest.raises(ValueError, match=f"^pretrain: the batches must have the {message}"):
            kbert.pretrain(batches, init=tmp_path / "other", output=tmp_path / "run")
    model.quantize("int8")
    kbert.save_pretrained(model, tmp_path / "int8", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="training needs float weights. Received: .*int8, a quantised model"):
        kbert.pretrain(batches, init=tmp_path / "int8", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
