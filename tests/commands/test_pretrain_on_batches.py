"""write_batches.py and pretrain_on_batches.py: the recipes around what tests/training/test_jax_training.py shows."""

import functools
import json

import keras
import pytest
from helpers.pretraining_fixtures import corpus, records, tokenizer  # noqa: F401 - fixtures
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_values

import kbert
from kbert.pretraining.run import write_batches as write_batches_module
from kbert.pretraining.run.phases import default_max_predictions
from kbert.pretraining.run.pretrain_on_batches import pretrain_on_batches
from kbert.pretraining.run.write_batches import write_batches

QUICK = ("--batch-size", 4, "--sequence-length", 16, "--max-predictions", 2, "--evaluation-batches", 2)


@pytest.fixture(scope="module")
def batches(records, tmp_path_factory):  # noqa: F811
    directory = tmp_path_factory.mktemp("written") / "batches"
    run_kbert("batches", records, "--output", directory, "--steps", 4, *QUICK, "--whole-word", "--packed")
    return directory


@pytest.mark.usefixtures("eagerly")  # traced: training/test_jax_training.py
def test_writes_and_trains(batches, tmp_path, capsys):
    manifest = read_json(batches / "batches.json")
    assert manifest["whole_word"] is manifest["packed"] is True and "inputs/part_ids" in manifest["arrays"]
    arguments = (batches, "--output", tmp_path / "run", "--checkpoint-every", 2, "--dropout", 0)
    run_kbert("pretrain-on-batches", *arguments, "--json")
    printed = capsys.readouterr().out
    assert "4 batches of 4 packed rows of 16 tokens" in printed and "held-out: loss" in printed
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert json.loads(printed.splitlines()[-1]) == metrics and metrics["steps"] == 4
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"model", "metrics.json", "settings.json", "inputs.json", "history.jsonl", "logs"}
    assert kbert.load_pretrained(tmp_path / "run").pretrained.settings.sequence_length == 16
    with pytest.raises(SystemExit, match="holds the finished run"):
        run_kbert("pretrain-on-batches", *arguments)
    more = (*arguments, "--overwrite", "--init", tmp_path / "run", "--steps", 2)
    with pytest.raises(SystemExit, match="init"):
        run_kbert("pretrain-on-batches", *more, "--size", "tiny")
    more = (batches, "--output", tmp_path / "next", "--init", tmp_path / "run", "--steps", 2)
    run_kbert("pretrain-on-batches", *more)
    made_by = read_json(tmp_path / "next" / "model" / "manifest.json")["made_by"]
    assert made_by["inputs"]["init"]["made_by"]["metrics"] == metrics


@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_writes_nothing(batches, tmp_path, capsys):
    run_kbert("pretrain-on-batches", batches, "--output", tmp_path / "run", "--steps", 3, "--dry-run")
    lines = capsys.readouterr().out.splitlines()
    assert "parameters" in lines[1] and lines[2] == "3 steps of 4 rows of 16 tokens: 192 tokens"
    assert lines[3].startswith("memory: about") and lines[4].startswith("time: about")
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("eagerly")
def test_weight_decay_shrinks_kernels_only(batches):
    options = {"steps": 1, "learning_rate": 0.1, "warmup_steps": 0, "dropout": 0}
    without, decayed = (pretrain_on_batches(batches, weight_decay=rate, **options).model for rate in (0.0, 0.5))
    for before, after in zip(without.weights, decayed.weights, strict=True):
        same = "bias" in before.path or "gamma" in before.path or "beta" in before.path
        assert (before.numpy() == after.numpy()).all() == same, before.path


def test_wrong_arguments_are_named(batches):
    wrong_values(
        functools.partial(pretrain_on_batches, batches),
        ("learning_rate", "1e-3", r"a number in \(0, inf\). Received: '1e-3'"),
        ("weight_decay", -1, r"a number in \[0, 1\]. Received: -1"),
        ("dropout", "0.1", r"a number in \[0, 1\). Received: '0.1'"),
        ("accumulate", 0, "a positive integer. Received: 0"),
        ("seed", "0", "an integer of at least 0. Received: '0'"),
        ("steps", 2.5, "a positive integer. Received: 2.5"),
        ("warmup_steps", -1, "an integer of at least 0. Received: -1"),
        ("overwrite", "no", "True or False. Received: 'no'"),
        owner="pretrain_on_batches: ",
    )


@pytest.mark.usefixtures("eagerly")
def test_the_dtype_policy_is_the_callers_again(batches, tmp_path):
    options = {"precision": "mixed_bfloat16", "steps": 1, "dry_run": True}
    found = pretrain_on_batches(batches, **options)
    assert found.model.dtype_policy.name == "mixed_bfloat16" and keras.config.dtype_policy().name == "float32"
    with pytest.raises(ValueError, match="`init` must be a kbert directory"):
        pretrain_on_batches(batches, **options, init=tmp_path)
    assert keras.config.dtype_policy().name == "float32"


def test_masks_are_those_of_kbert_pretrain(records, tmp_path):  # noqa: F811
    rates = {"mask_rate": 0.3, "random_next_rate": 0.25}
    sizes = {"steps": 1, "batch_size": 2, "sequence_length": 64, "evaluation_batches": 1}
    manifest = write_batches(records, tmp_path / "batches", **sizes, **rates)
    assert manifest["max_predictions"] == default_max_predictions(64, 0.3) == 20
    with pytest.raises(ValueError, match="expected masked tokens.* Received: left_to_right=True"):
        write_batches(records, tmp_path / "other", left_to_right=True, **sizes)
    assert not (tmp_path / "other").exists()


def test_packing_is_decided_with_the_rates(records, tmp_path, monkeypatch):  # noqa: F811
    given = {}
    monkeypatch.setattr(write_batches_module, "packing_pays", lambda *_, **options: given.update(options) or False)
    rates = {"mask_rate": 0.3, "random_next_rate": 0.25}
    write_batches(records, tmp_path / "batches", steps=1, batch_size=2, sequence_length=64, **rates)
    assert given.items() >= rates.items()
    sizes = {"steps": 1, "batch_size": 2, "sequence_length": 64, "evaluation_batches": 1}
    filled = write_batches(records, tmp_path / "filled", fill_rows=True, **sizes)
    assert filled["packed"] is filled["fill_rows"] is True


def test_what_is_refused(batches, records, tmp_path):  # noqa: F811
    arguments = (records, "--output", batches, "--steps", 2, *QUICK)
    with pytest.raises(SystemExit, match="error: .*batches"):
        run_kbert("batches", *arguments)
    with pytest.raises(SystemExit, match="`init` must be a kbert directory. Received"):
        run_kbert("pretrain-on-batches", batches, "--init", tmp_path, "--output", tmp_path / "run")
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
        with pytest.raises(ValueError, match=f"^pretrain_on_batches: the batches must have the {message}"):
            pretrain_on_batches(batches, init=tmp_path / "other", output=tmp_path / "run")
    model.quantize("int8")
    kbert.save_pretrained(model, tmp_path / "int8", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="training needs float weights. Received: .*int8, a quantised model"):
        pretrain_on_batches(batches, init=tmp_path / "int8", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()
