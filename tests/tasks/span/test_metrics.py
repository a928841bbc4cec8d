"""SQuAD's scores against the official rules, written down again from evaluate-v1.1.py and evaluate-v2.0.py."""

import collections
import json
import random
import re
import string

import numpy as np
import pytest

from kbert.tasks.span.evaluation import SpanEvaluation
from kbert.tasks.span.metrics import normalize_answer, null_threshold, squad_scores
from kbert.tasks.span.questions import Questions

WORDS = ["a", "the", "An", "cat", "Cat.", "dog's", "of", "!", "", "  ", "中文", "É", "1,000", "the-end", "U.S."]


def official_normalize(s):
    def remove_articles(text):
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    exclude = set(string.punctuation)
    return " ".join(remove_articles("".join(ch for ch in s.lower() if ch not in exclude)).split())


def official_tokens(s):
    return official_normalize(s).split() if s else []


def official_exact(gold, prediction):
    return int(official_normalize(gold) == official_normalize(prediction))


def official_f1_v2(gold, prediction):
    gold_toks, pred_toks = official_tokens(gold), official_tokens(prediction)
    common = collections.Counter(gold_toks) & collections.Counter(pred_toks)
    num_same = sum(common.values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(pred_toks), 1.0 * num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)


def official_f1_v1(gold, prediction):
    prediction_tokens, gold_tokens = official_normalize(prediction).split(), official_normalize(gold).split()
    num_same = sum((collections.Counter(prediction_tokens) & collections.Counter(gold_tokens)).values())
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(prediction_tokens), 1.0 * num_same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)


def official_v1(golds, predictions):
    exact = f1 = 0
    for gold, prediction in zip(golds, predictions, strict=True):
        exact += max(official_exact(g, prediction) for g in gold)
        f1 += max(official_f1_v1(g, prediction) for g in gold)
    return {"exact": 100.0 * exact / len(golds), "f1": 100.0 * f1 / len(golds), "total": len(golds)}


def official_best(preds, scores, odds, has_ans):
    num_no_ans = sum(1 for k in has_ans if not has_ans[k])
    cur_score = best_score = num_no_ans
    best_thresh = 0.0
    for qid in sorted(odds, key=lambda k: odds[k]):
        if has_ans[qid]:
            diff = scores[qid]
        else:
            diff = -1 if preds[qid] else 0
        cur_score += diff
        if cur_score > best_score:
            best_score, best_thresh = cur_score, odds[qid]
    return 100.0 * best_score / len(scores), best_thresh


def official_v2(golds, predictions, odds, threshold):
    ids = range(len(golds))
    has_ans = {i: bool(golds[i]) for i in ids}
    exact, f1 = {}, {}
    for i in ids:
        answers = [g for g in golds[i] if official_normalize(g)] or [""]
        exact[i] = max(official_exact(a, predictions[i]) for a in answers)
        f1[i] = max(official_f1_v2(a, predictions[i]) for a in answers)

    def apply(scores):
        return {i: float(not has_ans[i]) if odds[i] > threshold else s for i, s in scores.items()}

    result = {}
    for name, scores in (("exact", apply(exact)), ("f1", apply(f1))):
        for prefix, rows in (
            ("", list(ids)),
            ("HasAns_", [i for i in ids if has_ans[i]]),
            ("NoAns_", [i for i in ids if not has_ans[i]]),
        ):
            if rows:
                result[prefix + name] = 100.0 * sum(scores[i] for i in rows) / len(rows)
                result[prefix + "total"] = len(rows)
    preds, odds = dict(enumerate(predictions)), dict(enumerate(odds))
    result["best_exact"], result["best_exact_thresh"] = official_best(preds, exact, odds, has_ans)
    result["best_f1"], result["best_f1_thresh"] = official_best(preds, f1, odds, has_ans)
    return result


def random_cases(seed, count, least_answers):
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.randint(1, 12)
        texts = [" ".join(draw.choices(WORDS, k=draw.randint(0, 4))) for _ in range(40)]
        golds = [tuple(draw.choices(texts, k=draw.randint(least_answers, 3))) for _ in range(size)]
        predictions = [draw.choice([*gold, *texts[:3]]) for gold in golds]
        yield golds, predictions, [draw.choice([-1.5, 0.0, draw.uniform(-3, 3)]) for _ in range(size)]


def test_version_1_1():
    for golds, predictions, _ in random_cases(1, 200, 1):
        assert squad_scores(golds, predictions, version="1.1") == pytest.approx(official_v1(golds, predictions))


def test_version_2_0():
    for golds, predictions, odds in random_cases(2, 200, 0):
        for threshold in (0.0, -1.5, 2.0):
            received = squad_scores(golds, predictions, odds=odds, threshold=threshold)
            assert received == pytest.approx(official_v2(golds, predictions, odds, threshold))


@pytest.mark.parametrize("text", ["The  cat!", "a an the", "dog's", "“É” -- x", "theater a.b", " an\u00a0apple\n", ""])
def test_normalization(text):
    assert normalize_answer(text) == official_normalize(text)


def test_corner_cases():
    scores = squad_scores([("The cat", "dog"), ("!!!",), ()], ["cat.", "the", ""])
    assert (scores["exact"], scores["f1"], scores["total"]) == (100, 100, 3)
    assert (scores["HasAns_total"], scores["NoAns_total"]) == (2, 1)
    assert squad_scores([("!!!",)], ["the"], version="1.1") == {"exact": 100, "f1": 0, "total": 1}
    assert squad_scores([("b c d",)], ["c d e f"])["f1"] == pytest.approx(200 * 0.5 * (2 / 3) / (0.5 + 2 / 3))
    with pytest.raises(ValueError, match="one of .'1.1', '2.0'.. Received: '3'"):
        squad_scores([()], [""], version="3")
    with pytest.raises(ValueError, match="an answer to each question. Received: 1, 2"):
        squad_scores([()], ["", ""])


def test_the_threshold_that_is_stored_is_the_best():
    for golds, predictions, odds in random_cases(3, 200, 0):
        threshold = null_threshold(golds, predictions, odds)
        received = squad_scores(golds, predictions, odds=odds, threshold=threshold)["f1"]
        edges = sorted({*odds, min(odds) - 1})
        every = [squad_scores(golds, predictions, odds=odds, threshold=t)["f1"] for t in edges]
        assert received == pytest.approx(max(every))
        assert min(abs(threshold - value) for value in odds) > 1e-9  # never on an edge, where rounding decides
        if len(set(odds)) == len(odds):
            assert received >= squad_scores(golds, predictions, odds=odds)["best_f1"] - 1e-9


def test_questions_without_candidates_leave_the_threshold_alone():
    golds, answers, odds = [("a",), (), ("b",)], ["a", "x", "b"], [-3.0, 2.0, -1.0]
    alone = null_threshold(golds, answers, odds)
    assert null_threshold([*golds, ("c",)], [*answers, ""], [*odds, 1e9 + 4]) == alone == 0.5
    assert null_threshold([("c",), ()], ["", ""], [1e9, 1e9 - 7]) == 0.0


def test_files(tmp_path):
    questions = Questions(["a", "b"], ["?", "!"], ["x É", "y"], [("x",), ()], np.array([0, -1], "int32"))
    n_best = np.array([["x É", "", "x"], ["", "y", ""]], object), np.array([[0.5, 0.25, 0.25], [0.75, 0.25, 0]])
    best, places, odds = np.array(["x É", "y"]), np.zeros((2, 2)), np.array([-2.5, 1], "float32")
    SpanEvaluation(questions, best, places, odds, n_best, 0.0, {}).write(tmp_path / "out")
    files = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "out").iterdir()}
    assert files["predictions.json"] == {"a": "x É", "b": ""}
    assert files["null_odds.json"] == {"a": -2.5, "b": 1.0}
    assert [entry["text"] for entry in files["nbest.json"]["a"]] == ["x É", "", "x"]
    assert files["nbest.json"]["b"] == [{"text": "", "probability": 0.75}, {"text": "y", "probability": 0.25}]
