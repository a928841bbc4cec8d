"""Pre-training from the command line: what it learns, leaves behind, takes up again and refuses."""

import json

import numpy as np
import pytest
from helpers.run_recipe import as_flags, read_json, run_kbert
from helpers.tiny_corpus import LETTERS, VOCABULARY, write_lines
from helpers.wrong_values import wrong_inputs
from safetensors.numpy import load_file

import kbert
from kbert.pretraining.run.corpus_data import CorpusData

QUICK = (
    *as_flags(batch_size=8, sequence_length=24, max_predictions=4, learning_rate=5e-4, held_out=0.2),
    *as_flags(evaluation_batches=2, log_every=5, checkpoint_every=10, no_packed=True),
)


RUN = ("--dropout", 0, "--checkpoint-every", 80)


def _document(number):
    """Sentences that go on with the alphabet, letter by letter: a masked letter follows from its neighbours."""
    letters = [LETTERS[(number * 7 + i) % len(LETTERS)] for i in range(6 * (3 + number % 5))]
    return [" ".join(letters[i : i + 6]) + " ." for i in range(0, len(letters), 6)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_lines(path / "corpus.txt", [_document(number) for number in range(150)])
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return path


def _arguments(home, output, *more, steps=20):
    return (home / "corpus.txt", *as_flags(vocabulary=home / "vocab.txt", steps=steps, output=output), *QUICK, *more)


@pytest.fixture(scope="module")
def run(home):
    run_kbert("pretrain", *_arguments(home, home / "run", *RUN, steps=160))
    return home / "run"


def _weights(run):
    return load_file(run / "model" / "model.safetensors")


def test_it_learns_and_compares_itself_with_token_frequencies(run):
    metrics = read_json(run / "metrics.json")
    assert metrics["steps"] == 160
    assert metrics["mlm_cross_entropy"] < metrics["unigram"]["cross_entropy"] - 0.2
    assert 0.4 < metrics["data"]["random_next_fraction"] < 0.8
    history = [json.loads(line)["mlm_loss"] for line in (run / "history.jsonl").open()]
    assert history[-1] < history[0] - 0.5


def test_the_reported_loss_is_the_mean_over_the_evaluation_set(run):
    # Keras used to count a batch that is none into the mean of the loss, but not into weighted metrics.
    metrics = read_json(run / "metrics.json")
    assert metrics["mlm_loss"] == pytest.approx(metrics["mlm_cross_entropy"], rel=1e-2)
    assert metrics["mlm_perplexity"] == pytest.approx(np.exp(metrics["mlm_cross_entropy"]), rel=1e-4)


def test_what_it_leaves(run):
    left = {"model", "records", "metrics.json", "settings.json", "inputs.json", "history.jsonl", "logs"}
    assert {path.name for path in run.iterdir()} == left
    model = kbert.load_pretrained(run)
    assert model.task == "pretraining"
    assert model.pretrained.tokenizer.vocabulary == VOCABULARY
    assert model.pretrained.settings.sequence_length == 24
    assert any((run / "logs").rglob("events*"))


@pytest.fixture
def without_evaluations(monkeypatch):
    """An output is looked at before any evaluation."""
    monkeypatch.setattr(CorpusData, "evaluations", lambda *arguments: None)


@pytest.mark.usefixtures("without_evaluations")
def test_a_run_is_extended_only_with_a_rate_that_is_constant(home, run):
    message = r"finished run with other settings \(steps: 160 there, 200 now"
    with pytest.raises(SystemExit, match=message):
        run_kbert("pretrain", *_arguments(home, run, *RUN, "--warmup-steps", 16, steps=200))  # 16 of 160


@pytest.mark.slow
def test_an_extended_run_is_the_longer_run(home, tmp_path):
    constant = ("--schedule", "constant", "--warmup-steps", 3)
    run_kbert("pretrain", *_arguments(home, tmp_path / "whole", *constant, steps=20))
    for steps in (12, 20):
        run_kbert("pretrain", *_arguments(home, tmp_path / "extended", *constant, steps=steps))
    assert read_json(tmp_path / "extended" / "metrics.json")["steps"] == 20
    whole = _weights(tmp_path / "whole")
    for name, value in _weights(tmp_path / "extended").items():
        np.testing.assert_array_equal(value, whole[name], err_msg=name)


@pytest.mark.parametrize(
    "flag, wrong, message",
    [
        (None, "empty.txt", "empty.txt"),
        ("--vocabulary", "without-mask.txt", r"\[MASK\]"),
    ],
)
def test_bad_input_is_named_before_training_and_leaves_nothing(home, tmp_path, monkeypatch, flag, wrong, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "without-mask.txt").write_text("\n".join(t for t in VOCABULARY if t != "[MASK]") + "\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit, match=message):
        corpus, *arguments = _arguments(home, "run")
        given = [wrong, *arguments] if flag is None else [corpus, *arguments, flag, wrong]  # the last one counts
        run_kbert("pretrain", *given)
    assert sorted(tmp_path.rglob("*")) == before


def test_flags_that_do_not_go_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "a.txt").write_text("a text .")
    wrong_inputs(
        lambda flags: run_kbert("pretrain", "a.txt", "--steps", 20, "--output", "run", *flags),
        (("--vocabulary", __file__, "--warmup-steps", 21), "`warmup_steps` must be at most `steps`. .* 21 of 20"),
        (("--init", "model", "--no-lowercase"), "`lowercase` goes with a `vocabulary` file"),
        (("--init", "model", "--vocabulary", __file__), "`init` has a vocabulary of its own"),
        ((), "a corpus of text needs `vocabulary`"),
        error=SystemExit,
    )
    assert not (tmp_path / "run").exists()
