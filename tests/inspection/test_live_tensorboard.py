"""A live TensorBoard over real runs, a pre-training and two fine-tunings of it, asked over HTTP.

Curves, histograms, graphs, pictures and texts in files: board/ and examples/; the tab in a server: browser/.
"""

import pytest
from helpers.live_tensorboard import live_tensorboard
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences

import kbert
from kbert.inspection.playground.plugin import PlaygroundLoader

pytestmark = pytest.mark.slow  # what is written: inspection/board; the plugin in a live server: browser/

SHORT = {"batch_size": 4, "sequence_length": 16, "learning_rate": 1e-3}
RATES = (1e-3, 2e-3)
RUNS = ("pretraining/logs", "0/logs", "1/logs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Directory with the runs, and what they returned."""
    with run_eagerly():
        return make_runs(tmp_path_factory.mktemp("runs"))


def make_runs(path):
    write_lines(path / "corpus.txt", make_documents(40))
    pretraining = kbert.pretrain(
        path / "corpus.txt",
        vocabulary=VOCABULARY,
        steps=4,
        log_every=2,
        checkpoint_every=2,
        held_out=0.2,
        evaluation_batches=1,
        output=path / "pretraining",
        packed=False,
        **SHORT,
    )
    rows, options = sentences(24), SHORT | {"evaluate_every": 2, "bookkeeping": {"checkpoint_every": 2}}
    tunings = [
        kbert.finetune(
            path / "pretraining",
            kbert.tasks.Classification(),
            rows[:16],
            rows[16:],
            path / str(n),
            **options | {"learning_rate": rate, "steps": steps},
        )
        for n, (rate, steps) in enumerate(zip(RATES, (6, 2), strict=True))
    ]
    return path, pretraining, tunings


@pytest.fixture(scope="module")
def live(runs):
    with live_tensorboard(runs[0], [PlaygroundLoader]) as board:
        yield board


def curve(live, run, tag):
    return [(step, value) for _, step, value in live.json("data/plugin/scalars/scalars", run=run, tag=tag)]


def test_the_dashboards_are_there(live):
    dashboards = "timeseries scalars custom_scalars graphs histograms distributions hparams text kbert"
    assert set(dashboards.split()) <= live.plugins()


def test_a_fine_tuning_that_overfits_is_seen_to(live, runs):
    """The curves of train and dev are in one chart: runs of one tag."""
    _, _, tunings = runs
    tags = live.json("data/plugin/scalars/tags")
    for tag in ("accuracy/accuracy", "loss/loss"):
        assert all(tag in tags[f"0/logs/{run}"] for run in ("train", "validation", "final"))
    evaluations = tunings[0].metrics["evaluations"]
    for name in ("accuracy", "loss"):
        assert curve(live, "0/logs/validation", f"{'loss' if name == 'loss' else 'accuracy'}/{name}") == [
            (one["step"], pytest.approx(one[name])) for one in evaluations
        ]
    constant = tunings[0].metrics["constant_answer"]["accuracy"]
    line = curve(live, "0/logs/baseline", "accuracy/accuracy")
    assert line == [(step, pytest.approx(constant)) for step in (0, 2, 4, 6)]
    kept = (tunings[0].metrics["kept_step"], pytest.approx(tunings[0].metrics["dev"]["accuracy"]))
    assert curve(live, "0/logs/final", "accuracy/accuracy") == [kept]


def test_custom_scalars(live):
    layout = live.json("data/plugin/custom_scalars/layout")
    charts = {chart["title"]: chart["multiline"]["tag"] for one in layout["category"] for chart in one["chart"]}
    assert [one["title"] for one in layout["category"]][0] == "Does it learn?"
    empty = []
    for title, tags in charts.items():
        found = [
            live.json("data/plugin/custom_scalars/scalars", run=f"pretraining/logs/{run}", tag=tag)
            for tag in tags
            for run in ("train", "validation", "baseline")
        ]
        assert all(one["regex_valid"] for one in found)
        if not any(one["tag_to_events"] for one in found):
            empty.append(title)
    assert not empty


def test_hparams_compare_the_runs(live, runs):
    path, _, tunings = runs
    experiment = live.post("data/plugin/hparams/experiment", {"experimentName": "", "hparamsLimit": 0})
    names = {one["name"] for one in experiment["hparamInfos"]}
    assert {"learning_rate", "batch_size", "steps", "num_layers", "hidden_dim", "seed", "parameters"} <= names
    metrics = {(one["name"]["group"], one["name"]["tag"]) for one in experiment["metricInfos"]}
    assert {("", "accuracy/accuracy"), ("", "accuracy/mlm_accuracy"), ("", "loss/loss")} <= metrics
    wanted = {
        "colParams": [{"metric": {"group": "", "tag": "accuracy/accuracy"}}, {"hparam": "learning_rate"}],
        "allowedStatuses": ["STATUS_SUCCESS"],
        "startIndex": 0,
        "sliceSize": 100,
    }
    groups = live.post("data/plugin/hparams/session_groups", wanted)["sessionGroups"]
    by_name = {one["sessions"][0]["name"]: one for one in groups}
    assert len(groups) == 3 and by_name.keys() == {f"{run}/final" for run in RUNS}
    for n, tuning in enumerate(tunings):
        one = by_name[f"{n}/logs/final"]
        assert one["hparams"]["learning_rate"] == RATES[n]
        values = {value["name"]["tag"]: value["value"] for value in one["sessions"][0]["metricValues"]}
        assert values["accuracy/accuracy"] == pytest.approx(tuning.metrics["dev"]["accuracy"])
