"""Training of feature-based taggers: dev is scored on the way, which changes nothing of the training."""

import json

import pytest
from helpers.event_files import read_scalars, tags_of
from helpers.tiny_directory import write_tiny_directory
from helpers.toy_tags import tagged_sentences

import kbert
from kbert.finetuning.features.train import FeatureTraining, train_feature_taggers

MODE = "last"


def _text(rows):
    return kbert.tasks.Tagging().from_memory([{"words": words, "tags": tags} for words, tags in rows])


@pytest.mark.usefixtures("eagerly")
def test_curves_of_dev(tmp_path):
    write_tiny_directory(tmp_path / "init")
    options = {"outputs": ("hidden_states",), "sequence_length": 16}
    encoder = kbert.load_pretrained(tmp_path / "init", task="encoder", **options)
    rows = tagged_sentences(20)
    texts = {"train": _text(rows[:16]), "dev": _text(rows[16:])}
    tags = kbert.tasks.Tagging().settings(texts["train"])["labels"]
    done = {}
    for every in (2, None):
        training = FeatureTraining(steps=3, batch_size=4, units=3, learning_rate=0.05, evaluate_every=every)
        run = tmp_path / str(every)
        done[every] = train_feature_taggers(
            encoder, texts, tags, run, [MODE], sequence_length=16, training=training, features=tmp_path / "features"
        )[MODE]
    assert done[2]["dev"] == done[None]["dev"]
    evaluations = [json.loads(line) for line in (tmp_path / "2" / MODE / "evaluations.jsonl").open()]
    assert [one["step"] for one in evaluations] == [2, 3] and evaluations == done[2]["evaluations"]
    assert [one["step"] for one in done[None]["evaluations"]] == [3]
    assert all(evaluations[-1][name] == done[2]["dev"][name] for name in ("loss", "f1", "accuracy"))
    assert (tmp_path / "2" / MODE / "predictions.txt").is_file()

    shown = read_scalars(tmp_path / "2" / MODE / "logs")
    for tag in ("loss/loss", "accuracy/f1", "accuracy/accuracy"):
        assert [step for step, _ in shown["validation", tag]] == [2, 3]
    assert [step for step, _ in shown["train", "loss/loss"]] == [2, 3]
    gold = [tag for _, sentence in rows[16:] for tag in sentence]
    line = shown["baseline", "accuracy/accuracy"]
    assert [value for _, value in line] == [pytest.approx(gold.count("O") / len(gold))] * len(line)
    assert ("examples", "predictions/sentences") in tags_of(tmp_path / "2" / MODE / "logs", "text")
