"""evaluate.py --model A --model B, which differ: the answers are those of their mean."""

import numpy as np
import pytest
from helpers.compare import softmax
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer
from helpers.tiny_directory import write_table

import kbert
from kbert.answers.spans import SpanAnswers

pytestmark = pytest.mark.usefixtures("eagerly")

LABELS = ["bad", "good", "so so"]
TAGS = ["O", "B-X", "I-X"]
ROWS = [(text, pair, n) for n, (text, pair) in enumerate(zip(TEXTS * 3, PAIRS * 3, strict=True))]


def make(path, model_class, *arguments, **settings):
    """Two models of random weights, stored in `path`; (their pipelines, the flags that name them)."""
    pipelines, flags = [], []
    for seed in (1, 2):
        each = {name: value[seed - 1] if isinstance(value, tuple) else value for name, value in settings.items()}
        model = randomise(model_class(tiny_config(num_layers=1), *arguments), seed)
        pipelines.append(kbert.build_pipeline(model, tiny_tokenizer(), **each))
        kbert.save_pretrained(pipelines[-1], path / f"model-{seed}", overwrite=True)
        flags += [path / f"model-{seed}"]
    return pipelines, flags


def evaluate(path, task, flags, *more):
    run_kbert("evaluate", *task, *flags, *more, "--batch-size", len(ROWS), "--output", path / "out")
    return read_json(path / "out" / "metrics.json")


def test_classifiers(tmp_path):
    pipelines, flags = make(tmp_path, kbert.BertClassifier, 3, labels=LABELS, pair=True)
    data = write_table(tmp_path / "t.csv", [(text, pair, LABELS[n % 3]) for text, pair, n in ROWS], ("a", "b", "y"))
    columns = ("--text", "a", "--text-pair", "b", "--label", "y")
    scores = evaluate(tmp_path, ["classification"], flags, "--examples", data, *columns)
    texts = {"text": [text for text, _, _ in ROWS], "text_pair": [pair for _, pair, _ in ROWS]}
    each = [softmax(p.model(p.preprocessor(texts))["logits"]) for p in pipelines]
    mean, labels = np.mean(each, axis=0), np.arange(len(ROWS)) % 3
    losses = [-np.log(p[np.arange(len(ROWS)), labels]).mean() for p in (mean, *each)]
    assert scores["loss"] == pytest.approx(losses[0], rel=1e-4)
    assert scores["accuracy"] == np.mean(mean.argmax(axis=1) == labels)
    assert min(abs(losses[0] - loss) for loss in losses[1:]) > 0.01  # neither of the two alone


@pytest.mark.slow  # its other test
def test_span_extractors_and_their_thresholds(tmp_path):
    contexts = [f"{pair} Paris is the capital of France {text} " * (1 + n % 3) for text, pair, n in ROWS]
    settings = dict(doc_stride=4, max_query_length=4, n_best=3)
    pipelines, _ = make(tmp_path, kbert.BertSpanExtractor, **settings)
    batch = pipelines[0].preprocessor({"question": ["was it good"] * len(ROWS), "context": contexts})
    each = [p.model({name: batch[name] for name in p.model.input}) for p in pipelines]
    mean = {name: (each[0][name] + each[1][name]) / 2 for name in each[0]}
    always = SpanAnswers(3)(mean, batch)
    odds = (always["null_score"] - always["score"]).numpy()
    threshold = float(np.median(odds)) + 1e-3

    _, flags = make(tmp_path, kbert.BertSpanExtractor, **settings, null_threshold=(threshold - 50, threshold + 50))
    rows = [("was it good", context, "capital" if n % 2 else "", n) for n, context in enumerate(contexts)]
    data = write_table(tmp_path / "q.csv", rows, ("question", "context", "answer", "id"))
    evaluate(tmp_path, [], flags, "--examples", data)
    assert list(read_json(tmp_path / "out" / "null_odds.json").values()) == pytest.approx(odds.tolist(), abs=1e-4)
    expected = ["" if o > threshold else a.decode() for o, a in zip(odds, always["answer"].numpy(), strict=True)]
    assert list(read_json(tmp_path / "out" / "predictions.json").values()) == expected
    assert 0 < expected.count("") < len(ROWS)  # one model's threshold alone would give none, or nothing else
