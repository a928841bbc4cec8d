"""What each task shows of its predictions in TensorBoard: the right ones, and texts of data stay text."""

import numpy as np
import pytest
from helpers.shown_text import HOSTILE, shown_as, shown_cells
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.inspection.markdown import percent
from kbert.tasks.multiple_choice import choice_views
from kbert.tasks.span.evaluation import SpanEvaluation, answer_views, evaluate_questions
from kbert.tasks.tagging.evaluation import entity_views
from kbert.tasks.tagging.tag_scheme import entity_scores

pytestmark = pytest.mark.usefixtures("eagerly")


def contents(views):
    return {view.tag.removeprefix("predictions/"): view.content for view in views}


TEXTS = [*HOSTILE, "good", "bad film", "", "paris"]


def test_classification():
    task = kbert.tasks.Classification()
    examples = task.examples({"text": TEXTS, "label": ["a|b", "*c*", "<d>"] * 3 + ["a|b", "*c*"]})
    examples = examples.with_labels(["<d>", "a|b", "*c*"])
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["<d>", "a|b", "*c*"])
    result = task.evaluate(pipeline, examples)
    shown = contents(result.show())
    predicted = result.predictions.argmax(axis=1)
    order = np.argsort(-result.predictions.max(axis=1), kind="stable")
    wrong = [row for row in order if predicted[row] != examples.labels[row]]
    rows = shown_cells(shown["confidently wrong"])
    assert rows[0] == ["gold", "predicted", "text", "from"] and wrong
    assert [row[2:] for row in rows[1:]] == [[shown_as(TEXTS[n]), f"the examples, row {n}"] for n in wrong[:10]]
    assert {row[1].rpartition(" ")[0] for row in rows[1:]} <= {"<d>", "a|b", "*c*"}
    assert f"accuracy {100 * result.scores['accuracy']:.0f}%" in shown["by label"]
    assert {"confusion matrix", "calibration", "expected calibration error"} <= set(shown)


def test_several_labels():
    task = kbert.tasks.Classification(label_separator="|")
    examples = task.examples({"text": TEXTS, "label": ["a|b", "", "*c*"] * 3 + ["a|*c*", "b"]})
    examples = examples.with_labels(["b", "*c*", "a"])
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3, multi_label=True))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["b", "*c*", "a"], thresholds=[0.2, 0.5, 0.8])
    result = task.evaluate(pipeline, examples)
    shown = contents(result.show())
    right = (result.predictions > [0.2, 0.5, 0.8]) == examples.labels.astype(bool)
    assert (
        f"{len(TEXTS)} held-out examples, all labels right in {percent(right.all(axis=1).mean())}" in shown["by label"]
    )
    assert [row[0] for row in shown_cells(shown["by label"])[1:]] == ["b", "*c*", "a"]
    rows = shown_cells(shown["worst"])
    assert rows[0] == ["", "gold", "predicted", "text", "from"] and len(rows) == 11
    assert {row[3] for row in rows[1:]} <= {shown_as(text) for text in TEXTS}


def test_pairs_and_numbers():
    task = kbert.tasks.Regression(text="one", text_pair="two", label="score")
    examples = task.examples({"one": TEXTS, "two": TEXTS[::-1], "score": np.linspace(-5, 5, len(TEXTS)).tolist()})
    model = randomise(kbert.BertRegressor(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), pair=True)
    result = task.evaluate(pipeline, examples)
    worst = np.argsort(-np.abs(result.predictions - examples.labels), kind="stable")[:10]
    rows = shown_cells(contents(result.show())["worst"])
    assert rows[0] == ["gold", "predicted", "residual", "text", "text pair", "from"]
    assert [row[3:5] for row in rows[1:]] == [[shown_as(TEXTS[n]), shown_as(TEXTS[::-1][n])] for n in worst]
    assert float(rows[1][2]) == pytest.approx(result.predictions[worst[0]] - examples.labels[worst[0]], rel=0.01)


def test_choices():
    task = kbert.tasks.MultipleChoice()
    questions = {
        "prompt": ["a|b", "who", "<x>"],
        "choices": [["*one*", "two"], ["x", "y", "z"], ["p", "q", HOSTILE[0]]],
    }
    examples = task.examples(questions | {"label": [0, 2, 2]})
    probabilities = np.array([[0.2, 0.8, 0.0], [0.1, 0.1, 0.8], [0.5, 0.25, 0.25]])
    rows = shown_cells(contents(choice_views(examples, probabilities))["confidently wrong"])
    assert rows[0] == ["gold", "predicted", "prompt", "choices", "from"]
    assert rows[1][:3] == ["0 (20%)", "1 (80%)", "a|b"]
    assert rows[1][3].split("\n") == ["✓ 0: ***one*** (20%)", "✗ 1: *two* (80%)"]
    assert rows[2][2] == "<x>" and rows[2][3].split("\n") == [
        "✗ 0: *p* (50%)",
        "1: q (25%)",
        f"✓ 2: **{HOSTILE[0]}** (25%)",
    ]
    model = randomise(kbert.BertMultipleChoice(tiny_config(num_layers=1)))
    shown = contents(task.evaluate(kbert.build_pipeline(model, tiny_tokenizer()), examples).show())
    assert "3 held-out examples" in shown["by label"]


CONTEXT = "the film is good . paris is the capital of france <b> | never ."


def questions():
    rows = {"question": [HOSTILE[3], "where ?", "what ?", "why ?"], "context": [CONTEXT] * 4}
    rows |= {"answer": ["good", "paris", "the capital of france", ""]}
    return kbert.tasks.SpanExtraction().examples(rows)


def test_questions_beside_their_gold():
    asked = questions()
    best = np.array(["good", "film", "capital", "<b> |"])
    starts = np.array([CONTEXT.index(text) for text in best])
    places = np.stack([starts, starts + [len(text) for text in best]], axis=1)
    n_best = np.array([[text, "x"] for text in best]), np.tile([0.75, 0.25], [4, 1])
    views = contents(answer_views(SpanEvaluation(asked, best, places, np.zeros(4), n_best, None, {}), "2.0"))
    rows = shown_cells(views["questions"])
    assert [row[:4] for row in rows[1:]] == [
        ["✓", shown_as(HOSTILE[3]), "good (75%)", "good"],
        ["✗", "where ?", "film (75%)", "paris"],
        ["≈ F1 50%", "what ?", "capital (75%)", "the capital of france"],
        ["✗", "why ?", "<b> | (75%)", "*no answer*"],
    ]
    assert [row[4] for row in rows[1:]] == [
        CONTEXT.replace("good", "⟦❮***good***❯⟧"),
        CONTEXT.replace("film", "❮*film*❯").replace("paris", "⟦**paris**⟧"),
        CONTEXT.replace("the capital of france", "⟦**the** ❮***capital***❯ **of france**⟧"),
        CONTEXT.replace("<b> |", "❮*<b> |*❯"),
    ]
    assert [row[1] for row in shown_cells(views["wrong answers"])[1:]] == ["where ?", "why ?", "what ?"]
    nothing = SpanEvaluation(asked, best, places, np.ones(4), n_best, 0.5, {})
    row = shown_cells(contents(answer_views(nothing, "2.0"))["questions"])[2]
    assert row[2] == "*no answer* (–), else: film" and "❮" not in row[4]


def test_places_of_answers_are_those_of_the_pipeline():
    asked = questions()
    model = randomise(kbert.BertSpanExtractor(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), sequence_length=19, doc_stride=4, max_query_length=5)
    result = evaluate_questions(pipeline, asked, version="2.0", threshold=0.0)
    for answer, (start, end) in zip(result.best_answers, result.places, strict=True):
        assert answer and CONTEXT[start:end] == answer
    shown = kbert.tasks.SpanExtraction().evaluate(pipeline, asked, choose=True).show()
    assert len(shown_cells(contents(shown)["questions"])) == 5


def test_sentences_with_entities():
    task = kbert.tasks.Tagging()
    sentence = [("paris", "B-A|B"), ("is", "O"), ("<b>", "B-*C*"), ("film", "I-*C*"), (".", "O")]
    words, tags = (list(column) for column in zip(*sentence, strict=True))
    tagged = task.examples({"words": [words, ["very", "good"], words], "tags": [tags, ["O", "O"], tags]})
    predicted = [["B-A|B", "O", "B-A|B", "B-*C*", "O"], ["O", "B-*C*"], tags]
    views = contents(entity_views(tagged, predicted, entity_scores(tagged.tags, predicted)))
    assert shown_cells(views["by type"]) == [
        ["type", "precision", "recall", "F1", "gold", "predicted"],
        ["*C*", "33%", "50%", "40%", "2", "3"],
        ["A|B", "67%", "100%", "80%", "2", "3"],
        ["**all**", "50%", "75%", "60%", "4", "6"],
    ]
    gold = "✓⟦A|B **paris**⟧ is ✗⟦*C* *<b> film*⟧ ."
    guess = "✓⟦A|B **paris**⟧ is ✗⟦A|B *<b>*⟧ ✗⟦*C* *film*⟧ ."
    both = "✓⟦A|B **paris**⟧ is ✓⟦*C* **<b> film**⟧ ."
    sample = shown_cells(views["sentences"])[1:]
    assert [row[:2] for row in sample] == [["gold", gold], ["predicted", guess], ["gold", both], ["predicted", both]]
    worst = shown_cells(views["worst sentences"])[1:]
    assert [row[1] for row in worst] == [gold, guess, "very good", "very ✗⟦*C* *good*⟧"]
    labels = ["O", "B-*C*", "I-*C*", "B-A|B", "I-A|B"]
    model = randomise(kbert.BertTagger(tiny_config(num_layers=1), num_labels=5))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=labels)
    shown = contents(task.evaluate(pipeline, tagged).show())
    assert shown_cells(shown["sentences"])[1][1].count("⟦") == 2
