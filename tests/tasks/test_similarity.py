"""Embeddings are trained on pairs, triplets, scored pairs and single texts; scored, resumed, exported and served."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from helpers.at_step import Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import run_kbert
from helpers.slow_but import slow_but
from helpers.tiny_directory import BAD, GOOD, write_table, write_tiny_directory
from helpers.tiny_finetuning import start

import kbert
from kbert.options import Optimization
from kbert.tasks import Similarity, search_scores
from kbert.tasks.metrics import random_search_scores
from kbert.training import dry_run
from kbert.training.hardware import choose_hardware

WORDS = ["good", "bad", "paris", "london", "film", "france"]
PAIRS = [(f"{a} {b}", f"{b} {a} .") for a in WORDS for b in WORDS if a != b]
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, steps=6, evaluate_every=3, checkpoint_every=4)


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    return write_tiny_directory(tmp_path_factory.mktemp("init"))


@pytest.mark.slow  # test_pages.py::test_embeddings; test_rows_of_every_kind_have_a_loss
def test_pairs_are_learned_scored_exported_and_searched(init, tmp_path, capsys):
    task = Similarity(text_pair="pair", symmetric=True, dimensions=(4,))
    file = write_table(tmp_path / "pairs.csv", PAIRS, ("text", "pair"))
    train, dev = task.read(file).split(10)
    assert dev.columns["text_pair"][0] == PAIRS[dev.lines[0] - 2][1]
    options = QUICK | {"steps": 4, "evaluate_every": 4, "optimization": Optimization(accumulate=2)}
    with run_eagerly():
        run = kbert.finetune(init, task, train, dev, tmp_path / "run", **options)
    assert run.metrics["dev"]["recall@1"] > run.metrics["constant_answer"]["recall@1"] == 1 / len(set(dev.text_pairs))
    texts = ["good bad", "paris", "never"]
    with run_eagerly():
        expected = run.pipeline.predict(texts, verbose=0)["embedding"]
    np.testing.assert_allclose(expected @ expected.T, np.clip(expected @ expected.T, -1, 1), atol=1e-6)
    served = tf.saved_model.load(str(kbert.export(run.pipeline, tmp_path / "served")))
    for name in ("serving_default", "embed"):
        np.testing.assert_allclose(served.signatures[name](text=tf.constant(texts))["embedding"], expected, atol=1e-5)
    with run_eagerly():
        check_what_is_stored(run, task, dev, texts, expected, tmp_path)


def check_what_is_stored(run, task, dev, texts, expected, tmp_path):
    assert kbert.evaluate(run.path, task, dev) == pytest.approx(run.metrics["dev"])
    loaded = kbert.load_pretrained(run.path)
    assert loaded.dimensions == (4,) and loaded.symmetric
    np.testing.assert_allclose(kbert.build_pipeline(loaded).predict(texts, verbose=0)["embedding"], expected, atol=1e-6)
    assert kbert.search(run.pipeline, texts, ["paris"], k=1).rows.tolist() == [[1]]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    run_kbert("predict", "--source", run.path, "--input", tmp_path / "texts.txt", "--output", tmp_path / "out.jsonl")
    rows = [json.loads(line)["embedding"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.slow  # its batches: test_rows_of_every_kind_have_a_loss; weights: tests/finetuning/test_finetune.py
@pytest.mark.usefixtures("eagerly")
def test_a_run_that_stopped_is_resumed_to_the_same_weights(init, tmp_path):
    task = Similarity(text_pair="pair")
    options = QUICK | {"steps": 3, "evaluate_every": None, "checkpoint_every": 1}
    whole = kbert.finetune(init, task, PAIRS, None, tmp_path / "whole", **options)
    killed = {"callbacks": [killed_at(2)]}
    with pytest.raises(Killed):
        kbert.finetune(init, task, PAIRS, None, tmp_path / "resumed", **options | killed)
    resumed = kbert.finetune(init, task, PAIRS, None, tmp_path / "resumed", **options)
    for one, other in zip(whole.pipeline.model.get_weights(), resumed.pipeline.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("serves", slow_but([False], [False, True]))  # exports: the first test
def test_options_reach_the_loss_and_what_is_served(init, tmp_path, serves):
    loss = {"temperature": 0.2, "symmetric": True, "dimensions": (4,)}
    task = Similarity(text_pair="pair", pooling="cls", normalize=False, **loss)
    pipeline = start(init, task, PAIRS).pipeline
    config = pipeline.model.default_loss()["embedding"].get_config()
    assert {name: config[name] for name in loss} == loss | {"dimensions": [4]}
    scored = Similarity(text_pair="pair", label="score", dimensions=(3,))
    rows = [(*pair, 0.5) for pair in PAIRS]
    model = start(init, scored, rows).pipeline.model
    assert type(model.default_loss()["embedding"]) is kbert.optim.CosineLoss
    assert model.default_loss()["embedding"].get_config()["dimensions"] == [3]
    texts = ["good bad", "paris"]
    states = pipeline.model.encoder(pipeline.preprocessor(texts))["sequence_output"]
    with run_eagerly():
        np.testing.assert_allclose(pipeline.predict(texts, verbose=0)["embedding"], states[:, 0], atol=1e-5)
    if serves:
        served = tf.saved_model.load(str(kbert.export(pipeline, tmp_path / "served")))
        answer = served.signatures["embed"](text=tf.constant(texts))["embedding"]
        np.testing.assert_allclose(answer, states[:, 0], atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_scores_are_ranks_of_cosines_and_a_search_among_negatives_too(init):
    task = Similarity(text_pair="p", label="s")
    pairs = [(f"the {one} film", f"a {other} song .") for one in (*GOOD, *BAD) for other in (*GOOD, *BAD)]
    rows = [(*pair, row % 6 / 5) for row, pair in enumerate(pairs)]
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "similarity"), sequence_length=9)
    embeddings = [pipeline.predict(list(texts), verbose=0)["embedding"] for texts in zip(*pairs, strict=True)]
    cosines = np.sum(embeddings[0] * embeddings[1], axis=1)
    assert np.diff(np.sort(cosines)).min() > 2e-6  # words that the model knows: rounding decides no rank
    expected = scipy.stats.spearmanr(cosines, [score for *_, score in rows]).statistic
    assert kbert.evaluate(pipeline, task, rows)["spearman"] == pytest.approx(expected, abs=1e-6)
    triplets = [(text, pair, text) for text, pair in pairs]  # each text finds itself among the negatives first
    assert kbert.evaluate(pipeline, Similarity(text_pair="p", negative="n"), triplets)["recall@1"] == 0


@pytest.mark.usefixtures("eagerly")
def test_an_empty_pair_is_the_right_answer_itself(init):
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "similarity"), sequence_length=9)
    rows = [("good", "good"), ("bad", "bad"), ("good", "")]
    task = Similarity(text_pair="p")
    assert kbert.evaluate(pipeline, task, rows)["recall@1"] == 0.75  # "good" has two right answers
    assert kbert.evaluate(pipeline, Similarity(text_pair="p"), [("", ""), *rows[:2]])["recall@1"] == 1
    assert task.baseline_scores(None, task.read(rows))["recall@1"] == pytest.approx(1 / 3)


@pytest.mark.usefixtures("eagerly")
def test_files_are_read_as_in_the_training(init, tmp_path):
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "similarity"), sequence_length=9)
    triplets = write_table(tmp_path / "triplets.csv", [(a, b, a) for a, b in PAIRS], ("q", "p", "n"))
    scored = write_table(tmp_path / "scored.csv", [(*pair, row % 6) for row, pair in enumerate(PAIRS)], ("q", "p", "s"))
    tasks = (
        (Similarity(text="q", text_pair="p", negative="n"), triplets),
        (Similarity(text="q", text_pair="p", label="s", score_range=(0, 5)), scored),
    )
    for number, (task, file) in enumerate(tasks):
        model = tmp_path / str(number)
        kbert.save_pretrained(pipeline, model, made_by={"settings": {"task": task.to_dict()}})
        assert kbert.evaluate(model, examples=file) == kbert.evaluate(model, task, file)
        run_kbert("predict", "--source", model, "--input", file, "--output", tmp_path / f"{number}.jsonl")
        assert len((tmp_path / f"{number}.jsonl").read_text().splitlines()) == len(PAIRS)
    pairs = write_table(tmp_path / "pairs.csv", PAIRS, ("q", "p"))
    fields = {"text": "q", "text_pair": "p"}
    assert kbert.evaluate(tmp_path / "0", fields, pairs) == kbert.evaluate(tmp_path / "0", Similarity(**fields), pairs)
    other = kbert.evaluate(tmp_path / "0", {"label": "s", "score_range": (0, 5)}, scored)  # scores, not negatives
    assert other == kbert.evaluate(tmp_path / "1", examples=scored)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "task, length",
    [
        pytest.param(Similarity(text_pair="p", negative="n"), 3, id="triplets", marks=pytest.mark.slow),
        pytest.param(Similarity(text_pair="p", label="s"), 2, id="scored"),
        pytest.param(Similarity(metrics="spearman"), 1, id="single", marks=pytest.mark.slow),
    ],
)
def test_rows_of_every_kind_have_a_loss(init, task, length):
    """And the batches from a step on are those of the whole run."""
    rows = [(*pair, row % 2 if task.label else "never")[: length + bool(task.label)] for row, pair in enumerate(PAIRS)]
    work = start(init, task, rows)
    batches = {"batch_size": QUICK["batch_size"], "seed": 0, "padding": "longest", "group_by_length": True}
    data = work.task.training_data(work.pipeline, work.train, **batches)
    inputs, targets = batch = next(iter(data.make_dataset()))
    later = next(iter(data.make_dataset(start_step=2)))
    tf.nest.map_structure(np.testing.assert_array_equal, list(data.make_dataset().take(3))[2], later)
    assert not np.array_equal(batch[0]["token_ids"], later[0]["token_ids"])
    model = work.pipeline.model
    embeddings = model(inputs, training=True)["embedding"]
    loss = model.default_loss()["embedding"](targets["embedding"], embeddings)
    assert len(embeddings) == QUICK["batch_size"] * (length if length > 1 else 2) and np.isfinite(loss) and loss > 0


def test_a_batch_is_the_texts_of_its_examples(init):
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "similarity"), sequence_length=9)
    task = Similarity(text_pair="p", negative="n")
    train = task.read([("good", "good film", "bad"), ("paris", "the capital", ""), ("bad", "good", "never")])
    data = task.training_data(pipeline, train, batch_size=3, seed=0, padding="full", group_by_length=False)
    inputs, labels = next(iter(data.make_dataset()))
    numbers = labels["embedding"].numpy()
    assert inputs["token_ids"].shape == (9, 9) and sorted(map(tuple, numbers.tolist())) == [
        (1, 2, 3),
        (3, 1, 6),
        (4, 5, 0),
    ]
    by_number = dict(zip(numbers.ravel().tolist(), inputs["token_ids"].numpy().tolist(), strict=True))
    words = {1: "good", 2: "good film", 3: "bad", 4: "paris", 5: "the capital", 6: "never"}
    for number, text in words.items():
        assert by_number[number] == pipeline.preprocessor([text])["token_ids"].numpy()[0].tolist()


def test_a_dry_run_measures_whole_examples(init, monkeypatch):
    monkeypatch.setattr(dry_run, "_MEASURED_FLOPS", 1)  # a single example
    estimate = kbert.finetune(init, Similarity(text_pair="p"), PAIRS, dry_run=True, **QUICK | {"evaluate_every": None})
    assert estimate.metrics["batch_size"] == 16 and estimate.metrics["seconds"] > 0


def test_replicas_share_a_batch_evenly(init, monkeypatch):
    def three(*arguments, **options):
        return dataclasses.replace(choose_hardware(*arguments, **options), replicas=3)

    monkeypatch.setattr("kbert.training.choose_hardware", three)
    with pytest.raises(ValueError, match=r"batch size must be a multiple of the 3 replicas. Received: \[8\]"):
        kbert.finetune(init, Similarity(text_pair="p"), PAIRS, **QUICK | {"evaluate_every": None})


def test_search_metrics_are_those_of_the_field():
    results = np.array([[3, 1, 2], [5, 4, 9], [7, 8, 6]])
    scores = search_scores(results, [{3}, {4, 9}, {1}])
    assert scores["recall@1"] == pytest.approx(1 / 3) and scores["mrr@10"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert scores["recall@10"] == pytest.approx((1 + 1 + 0) / 3)
    deeper = search_scores(results, [{3}, {4, 9}, {1}], recall_at=(2, 20))
    assert deeper["recall@2"] == pytest.approx((1 + 1 / 2 + 0) / 3) and search_scores(
        results, [{3, 1, 8}, {4, 9}, {1}]
    )["recall@1"] == pytest.approx(1 / 9)
    assert deeper["recall@20"] == scores["recall@10"]
    ideal = 1 + 1 / np.log2(3)
    assert scores["ndcg@10"] == pytest.approx((1 + (1 / np.log2(3) + 1 / np.log2(4)) / ideal) / 3)
    rng = np.random.default_rng(0)
    order = np.argsort(rng.random((20000, 14)), axis=1)[:, :10]
    drawn = search_scores(order, [{0}] * len(order))
    for name, value in random_search_scores(14).items():
        assert drawn[name] == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize(
    "options, expected",
    [
        (dict(negative="n"), "need `text_pair`"),
        (dict(label="s"), "need `text_pair`"),
        (dict(text_pair="p", label="s", negative="n"), "not both"),
        (dict(metrics="accuracy"), "`metrics` must be names of"),
        (dict(score_range=(1, 0)), "`score_range`"),
        (dict(pooling="sum"), "pooling"),
        (dict(temperature=0), "temperature"),
    ],
)
def test_wrong_options_are_errors(options, expected):
    with pytest.raises((ValueError, TypeError), match=expected):
        Similarity(**options)


def test_examples_of_another_kind_are_errors(init, tmp_path):
    pairs, scored = Similarity(text_pair="p"), Similarity(text_pair="p", label="s")
    rows = [(*pair, 0.5) for pair in PAIRS]
    with pytest.raises(ValueError, match="expected training examples with texts without scores"):
        kbert.finetune(init, pairs, scored.read(rows), 0.2, **QUICK)
    with pytest.raises(ValueError, match=r"scored by \['spearman', 'pearson'\]"):
        kbert.finetune(init, pairs, PAIRS, scored.read(rows), **QUICK)
    with pytest.raises(ValueError, match=r"scored by \['spearman', 'pearson'\]"):
        start(init, pairs, PAIRS, PAIRS, more_dev={"_scored": scored.read(rows)})
    with pytest.raises(ValueError, match="single texts cannot be scored"):
        kbert.finetune(init, Similarity(), [pair[:1] for pair in PAIRS], 0.2, **QUICK)
    with pytest.raises(ValueError, match="embedded twice, with different dropout.*Received: dropout=0"):
        kbert.finetune(
            init,
            Similarity(),
            [text for text, _ in PAIRS],
            None,
            tmp_path / "run",
            **QUICK | {"dropout": 0.0, "evaluate_every": None},
        )
    assert not (tmp_path / "run").exists()
    file = pathlib.Path(write_table(tmp_path / "bad.csv", [("a", "b", "7")], ("text", "p", "s")))
    with pytest.raises(ValueError, match=r"bad.csv, line 2: expected 's' in \[0, 1\]. Received: '7'"):
        scored.read(file)


def test_fit_on_strings_says_who_trains_pairs(init):
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "similarity"), sequence_length=9)
    pipeline.compile()
    with pytest.raises(ValueError, match="expected labels `y`.* kbert.finetune trains on pairs"):
        pipeline.fit(["a film", "a good film"])
