"""The feature-based approach: features written once, six feature modes, and a run taken up between them."""

import json

import numpy as np
import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_tags import tagged_sentences, write_conll

from kbert.cli import parse_call
from kbert.commands import COMMANDS
from kbert.files import write_json
from kbert.finetuning.features import extract as features
from kbert.finetuning.features import train as feature_data
from kbert.finetuning.features.modes import FEATURE_MODES

MODE = "weighted-sum-last-four"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_conll(path / "train.txt", tagged_sentences(40))
    write_conll(path / "dev.txt", tagged_sentences(12, start=40))
    return path


def _arguments(home, output, *more):
    return (
        *as_flags(train=home / "train.txt", dev=home / "dev.txt", source=home / "init", output=output),
        *as_flags(
            sequence_length=16,
            units=7,
            batch_size=8,
            learning_rate=0.05,
            steps=40,
            **{"checkpoint_every": 10},
        ),
        *more,
    )


@pytest.mark.slow
def test_a_mode_broken_off_resumes_exactly(home, tmp_path, monkeypatch, capsys):
    mode = ("--feature-modes", MODE)
    run_kbert("tag-features", *_arguments(home, tmp_path / "whole", *mode))
    straight = read_json(tmp_path / "whole" / MODE / "metrics.json")
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole" / MODE / "history.jsonl").open()]
    assert len(losses) == 8 and losses[-1] < 0.8 * losses[0] and straight["layers"] == [1]
    assert not (tmp_path / "whole" / "metrics.json").exists()  # five modes are missing
    assert read_json(tmp_path / "whole" / MODE / "settings.json")["feature_modes"] == [MODE]
    printed = capsys.readouterr().out
    rows = {line[:28].strip(): line[28:].split() for line in printed.splitlines()}
    assert rows[MODE][:2] == ["95.9", f"{100 * straight['dev']['f1']:.1f}"]
    assert rows["concat-last-four"] == ["96.1", "-", "-"]
    stored = np.load(tmp_path / "whole" / "features" / "train.npy")
    assert len(stored) == sum(len(words) for words, _ in tagged_sentences(40))
    whole = feature_data.feature_dataset
    with monkeypatch.context() as patch:
        patch.setattr(feature_data, "feature_dataset", lambda *a, **k: whole(*a, **k).take(19))
        with pytest.raises(ValueError, match="ended after step 19"):
            run_kbert("tag-features", *_arguments(home, tmp_path / "run", *mode))
        patch.setattr(feature_data, "feature_dataset", whole)
        patch.setattr(features, "window_states", None)  # the features are not made again
        run_kbert("tag-features", *_arguments(home, tmp_path / "run", *mode))
    assert "resuming from the checkpoint of step 10 of 40" in capsys.readouterr().err
    assert read_json(tmp_path / "run" / MODE / "metrics.json")["dev"] == straight["dev"]


@pytest.mark.slow
def test_all_modes(home, tmp_path, capsys):
    run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--feature-modes", "embeddings"))
    first = (tmp_path / "run" / "embeddings" / "metrics.json").read_bytes()
    capsys.readouterr()
    run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--json"))
    assert (tmp_path / "run" / "embeddings" / "metrics.json").read_bytes() == first
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == metrics
    assert set(metrics["feature_modes"]) == set(FEATURE_MODES)
    assert all(one["dev"]["f1"] > 0 for one in metrics["feature_modes"].values())


@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_says_what_it_would_take(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(feature_data, "seconds_per_step", lambda *arguments: 0.1)  # trained: finetuning/features
    run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--feature-modes", MODE, "--dry-run"))
    lines = capsys.readouterr().out.splitlines()
    words = sum(len(words) for words, _ in tagged_sentences(52))
    assert lines[0].startswith(f"features of {words:,} words in ") and " MiB, about " in lines[0]
    assert lines[1] == "for each tagger 40 steps of 8 sentences"
    assert lines[2].startswith(f"  {MODE}: ") and " parameters, about " in lines[2]
    assert lines[3].startswith("memory: about ") and lines[4].startswith("time: about ")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run" / MODE).mkdir(parents=True)
    write_json(tmp_path / "run" / MODE / "metrics.json", {})
    run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--feature-modes", MODE, "--dry-run"))
    assert capsys.readouterr().out == "Nothing is left to train.\n"


@pytest.mark.usefixtures("eagerly")
def test_the_settings_of_a_run_are_a_configuration(home, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_data, "train_feature_taggers", lambda *arguments, **options: {})
    run_kbert("tag-features", *_arguments(home, tmp_path / "run"))
    path = tmp_path / "run" / "settings.json"
    words = ["--config", str(path), "--output", "other"]
    values = parse_call("kbert tag-features", COMMANDS["tag-features"], words)[0]
    assert values == read_json(path) | {"output": "other"} and (values["units"], values["steps"]) == (7, 40)
    run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--checkpoint-every", 20))  # an interval may change
    with pytest.raises(SystemExit, match="units"):
        run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--units", 8))


def test_windows_beyond_the_position_table_are_an_error(home, tmp_path):
    with pytest.raises(SystemExit, match="error: .*position table, 16. Received: 17"):
        run_kbert("tag-features", *_arguments(home, tmp_path / "run", "--sequence-length", 17))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("align", ["tokens", "words"])
@pytest.mark.usefixtures("eagerly")
def test_features_in_files(home, tmp_path, align):
    (tmp_path / "texts.txt").write_text("the good film .\r\n\nunly a " + "dull song " * 12)
    common = as_flags(
        source=home / "init", input=tmp_path / "texts.txt", layers=[-1, 0], align=align, sequence_length=16
    )
    run_kbert("features", *common, "--output", tmp_path / "f.jsonl")
    run_kbert("features", *common, "--output", tmp_path / "f.npz", "--batch-size", 2)
    rows = [json.loads(line) for line in (tmp_path / "f.jsonl").read_text("utf-8").splitlines()]
    arrays = np.load(tmp_path / "f.npz")
    assert [row["linex_index"] for row in rows] == [0, 1, 2]
    for n, row in enumerate(rows):
        tokens = [one["token"] for one in row["features"]]
        assert tokens == arrays[f"tokens_{n}"].tolist()
        assert all([layer["index"] for layer in one["layers"]] == [-1, 0] for one in row["features"])
        values = np.array([[layer["values"] for layer in one["layers"]] for one in row["features"]])
        np.testing.assert_allclose(values.reshape(arrays[f"features_{n}"].shape), arrays[f"features_{n}"], atol=2e-5)
    # "unly" is two pieces, un ##ly; tokens have [CLS] and [SEP] beside them
    assert [len(row["features"]) for row in rows] == ([4, 0, 26] if align == "words" else [6, 2, 29])
    with pytest.raises(SystemExit):
        run_kbert("features", *common, "--output", tmp_path / "f.npz")
    with pytest.raises(SystemExit, match="Expected layers from -2 to 1"):
        run_kbert("features", *common, "--layers", 5, "--output", tmp_path / "g.npz")
    assert not (tmp_path / "g.npz").exists()
