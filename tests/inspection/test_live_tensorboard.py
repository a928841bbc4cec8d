"""A live TensorBoard over real runs, asked over HTTP: every dashboard has its data.

One pre-training and two fine-tunings of it. Every view that kbert adds to TensorBoard has a test here.
"""

import pytest
from helpers.live_tensorboard import live_tensorboard
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences

import kbert

pytestmark = pytest.mark.slow  # what is written is tested in inspection/board

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
    rows, options = sentences(24), SHORT | {"evaluate_every": 2, "checkpoint_every": 2}
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
    kbert.inspect(
        path / "0",
        [rows[0][0]],
        {"text": [text for text, _ in rows], "label": [label for _, label in rows]},
        log_dir=path / "0/logs",
    )
    return path, pretraining, tunings


@pytest.fixture(scope="module")
def live(runs):
    with live_tensorboard(runs[0]) as board:
        yield board


def curve(live, run, tag):
    return [(step, value) for _, step, value in live.json("data/plugin/scalars/scalars", run=run, tag=tag)]


def test_the_runs_are_there(live):
    parts = ("train", "validation", "baseline", "final", "examples")
    assert {"0/logs/inspection", *(f"{run}/{part}" for run in RUNS for part in parts)} <= set(live.json("data/runs"))


def test_the_dashboards_are_there(live):
    dashboards = "timeseries scalars custom_scalars histograms distributions hparams text images"
    assert set(dashboards.split()) <= live.plugins()


def test_scalars(live, runs):
    path, pretraining, tunings = runs
    assert curve(live, "pretraining/logs/train", "loss/mlm_loss") == [
        (record["step"], pytest.approx(record["mlm_loss"])) for record in pretraining.history
    ]
    unigram = pretraining.metrics["unigram"]
    for tag, name in (("accuracy/mlm_accuracy", "accuracy"), ("loss/mlm_loss", "cross_entropy")):
        line = curve(live, "pretraining/logs/baseline", tag)
        assert line == [(step, pytest.approx(unigram[name])) for step in (0, 2, 4)]
    assert curve(live, "pretraining/logs/final", "accuracy/mlm_accuracy") == [
        (4, pytest.approx(pretraining.metrics["mlm_accuracy"]))
    ]


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


def test_time_series_opens_on_accuracy_and_loss(live):
    tags = live.json("data/plugin/timeseries/tags")
    groups = set()
    for kind in ("scalars", "histograms"):
        groups |= {tag.split("/")[0] for some in tags[kind]["runTagInfo"].values() for tag in some}
    groups |= {tag.split("/")[0] for tag in tags["images"]["tagRunSampledInfo"]}
    assert sorted(groups)[:2] == ["accuracy", "loss"]
    assert "baseline" in " ".join(tags["scalars"]["tagDescriptions"].values())


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


def test_histograms(live):
    tags = live.json("data/plugin/histograms/tags")["pretraining/logs/train"]
    for tag in ("weights/encoder_block_1/feed_forward/output/kernel", "self_attention/entropy/encoder_block_0"):
        assert tag in tags
        shown = live.json("data/plugin/histograms/histograms", run="pretraining/logs/train", tag=tag)
        assert shown and len(shown[0][2]) == 30


def test_images(live):
    tags = live.json("data/plugin/images/tags")["0/logs/examples"]
    for tag in ("predictions/confusion matrix", "predictions/calibration"):
        assert tag in tags
        shown = live.json("data/plugin/images/images", run="0/logs/examples", tag=tag, sample=0)
        assert [one["step"] for one in shown] == [2, 4, 6]
        picture = live.get(f"data/plugin/images/individualImage?{shown[-1]['query']}")
        assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_text(live):
    """Held-out examples of the pre-training; what a fine-tuning gets right and wrong, at each evaluation."""
    tags = live.json("data/plugin/text/tags")
    expected = {
        ("pretraining", "masked examples"): [2, 4],
        ("pretraining", "next sentence examples"): [2, 4],
        ("0", "predictions/by label"): [2, 4, 6],
        ("1", "predictions/by label"): [2],
    }
    for (run, tag), steps in expected.items():
        run = f"{run}/logs/examples"
        assert tag in tags[run]
        shown = live.json("data/plugin/text/text", run=run, tag=tag)
        assert [one["step"] for one in shown] == steps and all("<table>" in one["text"] for one in shown)


def test_what_inspect_found(live):
    """The projector's vectors, and pictures of attention, heads and probes."""
    run = "0/logs/inspection"
    assert run in live.json("data/plugin/projector/runs")
    shown = live.json("data/plugin/projector/info", run=run)["embeddings"]
    names = {one["tensorName"]: one["tensorShape"] for one in shown}
    assert names == {"word embeddings": [len(VOCABULARY), 128], "texts": [5, 128]}
    vectors = live.get("data/plugin/projector/tensor", run=run, name="word embeddings")
    assert len(vectors) == 4 * 128 * len(VOCABULARY)
    labels = live.get("data/plugin/projector/metadata", run=run, name="word embeddings").decode().splitlines()
    assert labels[0].split("\t")[0] == "token" and [row.split("\t")[0] for row in labels[1:]] == VOCABULARY
    tags = live.json("data/plugin/images/tags")[run]
    assert {"model attention/text 1, layer 1", "model heads/entropy", "model probes/label"} <= set(tags)
    (picture,) = live.json("data/plugin/images/images", run=run, tag="model probes/label", sample=0)
    assert live.get(f"data/plugin/images/individualImage?{picture['query']}").startswith(b"\x89PNG")
