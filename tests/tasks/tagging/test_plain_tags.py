"""Tags that label words, such as parts of speech, from files to answers: they are no entities."""

import json

import numpy as np
import pytest
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_directory import BAD, GOOD, write_tiny_directory
from helpers.toy_tags import tagged_sentences

import kbert
from kbert.finetuning.grid import finetune_grid
from kbert.inspection.analysis.labelled_data import labelled_data
from kbert.tasks.tagging.readers import learn_tags, read_conll
from kbert.tasks.tagging.tag_scheme import tag_scores

TASK = kbert.tasks.Tagging()
CONLLU = """# newdoc id = a
# sent_id = 1
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tE\t_\t2\tcase\t_\t_
2\tle\tle\tDET\tRD\t_\t0\troot\t_\t_
2.1\tnull\t_\t_\t_\t_\t_\t_\t_\t_

# text = Pa ri!
1\tPa ri\tPari\tPROPN\tSP\t_\t0\troot\t_\t_

# newdoc
1\t#\t#\tSYM\tS\t_\t0\troot\t_\t_
"""


def part_of_speech(word):
    return "ADJ" if word in (*GOOD, *BAD) else "DET" if word in ("a", "the") else "PUNCT" if word == "." else "NOUN"


ROWS = [{"words": words, "tags": [part_of_speech(word) for word in words]} for words, _ in tagged_sentences(24)]


def write_columns(path):
    lines = [f"{word} {tag}" for row in ROWS for word, tag in [*zip(row["words"], row["tags"], strict=True), ("", "")]]
    path.write_text("\n".join(line.strip() for line in lines), encoding="utf-8")
    return path


def test_columns_and_rows_in_memory(tmp_path, caplog):
    caplog.set_level("INFO", logger="kbert")
    read = TASK.read(write_columns(tmp_path / "pos.txt"))
    assert read.plain and list(read.tags) == [row["tags"] for row in ROWS]
    assert "pos.txt: 4 plain tags, without B- and I-, scored by accuracy" in caplog.text
    assert TASK.examples(ROWS).fingerprint() == read.fingerprint() and TASK.examples(ROWS).plain
    assert learn_tags(read) == ["ADJ", "DET", "NOUN", "PUNCT"] and read.baseline() == "DET"
    assert read.take([0]).plain and TASK.baseline_scores("ADJ", read) == {"accuracy": 24 / 90}


def test_a_bare_type_is_a_label_of_its_word():
    tagged = TASK.examples({"words": [["Ada", "Lovelace", "spoke"]], "tags": [["PER", "PER", "O"]]})
    assert tagged.plain and tagged.tags == [["PER", "PER", "O"]]
    done, _ = TASK.for_training(tagged)
    assert done.labels == ("O", "PER") and done.metrics == ("accuracy",)
    only = TASK.examples({"words": [["Ada"]], "tags": [["O"]]})
    assert not only.plain
    with pytest.raises(ValueError, match="expected at least two different tags. Received: only PER"):
        TASK.for_training(TASK.examples({"words": [["Ada"]], "tags": [["PER"]]}))


def test_conllu_has_its_parts_of_speech_and_documents(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    read = TASK.read(path)
    assert read.words == [["de", "le"], ["Pa ri"], ["#"]] and read.plain
    assert read.tags == [["ADP", "DET"], ["PROPN"], ["SYM"]]
    assert read.documents == [1, 1, 2] and read.where(0, 1).endswith("line 5")
    assert kbert.tasks.Tagging(tag_column=4).read(path).tags[0] == ["E", "RD"]
    with pytest.raises(ValueError, match="expected a tag in column 1 .from 0; 1 is the word's"):
        kbert.tasks.Tagging(tag_column=1).read(path)


def test_a_mixture_is_an_error_that_names_the_other_scheme(tmp_path):
    mixed = {"words": [["Ada", "spoke"]], "tags": [["B-PER", "VERB"]]}
    with pytest.raises(ValueError, match="row 0: expected O or a tag like B-PER.*The scheme 'plain' takes all tags as"):
        TASK.examples(mixed)
    plain = kbert.tasks.Tagging(scheme="plain")
    assert plain.examples(mixed).tags == mixed["tags"] and plain.examples(mixed).plain
    (tmp_path / "a.txt").write_text("Ada I-PER\nspoke B-X\n")
    assert read_conll(tmp_path / "a.txt", scheme="plain").tags == [["I-PER", "B-X"]]
    with pytest.raises(ValueError, match="tags without B- and I- are scored by 'accuracy'. Received: metrics=..f1"):
        kbert.tasks.Tagging(metrics="f1").for_training(TASK.examples(ROWS))


def test_scores_by_hand():
    scores = tag_scores([["A", "B"], ["A"]], [["A", "A"], ["C"]])
    assert scores["accuracy"] == 1 / 3 and list(scores["labels"]) == ["A", "B", "C"]
    assert scores["labels"]["A"] == {
        "precision": 1 / 2,
        "recall": 1 / 2,
        "f1": 1 / 2,
        "examples": 2,
        "predicted_examples": 2,
    }
    assert scores["labels"]["C"]["predicted_examples"] == 1 and scores["labels"]["B"]["recall"] == 0


def test_an_inspection_sees_labels_of_words_and_no_entities():
    data = labelled_data(TASK.examples(ROWS), "data")
    assert data.tags is None and data.labels["tag"] == [row["tags"] for row in ROWS]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    write_columns(home / "pos.txt")
    write_tiny_directory(home / "init", dropout=0.0)
    flags = ("--train", home / "pos.txt", "--dev", home / "pos.txt", "--source", home / "init", "--steps", 60)
    more = ("--batch-size", 8, "--learning-rate", 1e-2, "--sequence-length", 12, "--output", home / "run")
    run_kbert("finetune", "tagging", *flags, *more, "--evaluate-every", 30)
    return home


@pytest.mark.usefixtures("eagerly")
def test_they_are_trained_evaluated_and_predicted(home, tmp_path, capsys):
    metrics = read_json(home / "run/metrics.json")
    dev = metrics["dev"]
    assert dev["accuracy"] == 1.0 and metrics["constant_answer"] == {"accuracy": 24 / 90} and "f1" not in dev
    assert dev["labels"]["NOUN"]["examples"] == 24 and metrics["task"]["metrics"] == ["accuracy"]
    assert "NOUN" in (home / "run/predictions.txt").read_text()
    run_kbert("evaluate", home / "run", "--examples", home / "pos.txt")
    assert "accuracy: 1.0000" in capsys.readouterr().out
    assert kbert.evaluate(home / "run", examples=ROWS)["accuracy"] == 1.0
    result = TASK.evaluate(kbert.build_pipeline(home / "run"), TASK.read(ROWS))
    assert result.scores["accuracy"] == 1.0 and result.predictions == [row["tags"] for row in ROWS]
    (tmp_path / "texts.txt").write_text("the kind play .\n")
    run_kbert("predict", "--source", home / "run", "--input", tmp_path / "texts.txt", "--output", tmp_path / "a.jsonl")
    (answer,) = map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())
    assert [word["tag"] for word in answer["words"]] == ["DET", "ADJ", "NOUN", "PUNCT"]


@pytest.mark.usefixtures("eagerly")
def test_other_tags_than_the_models_are_refused(home):
    with pytest.raises(ValueError, match="the examples have none of the model's tags, .*'NOUN'.*Received: .'O', 'PER'"):
        kbert.evaluate(home / "run", examples={"words": [["Ada", "."]], "tags": [["PER", "O"]]})
    unseen = {"words": [["the", "kind", "play", "."]], "tags": [["DET", "ADJ", "X", "PUNCT"]]}
    assert kbert.evaluate(home / "run", examples=unseen)["accuracy"] == 0.75  # a word with a new tag is wrong


def test_what_tensorboard_shows(home):
    wrong = [{"words": ["the", "good", "|film|"], "tags": ["DET", "NOUN", "ADJ"]}]
    pipeline = kbert.build_pipeline(home / "run")
    table, worst = TASK.evaluate(pipeline, TASK.read(wrong)).show()
    assert "DET" in table.content and "good&#47;NOUN&#47;ADJ" in worst.content


@pytest.mark.usefixtures("eagerly")
def test_an_export_and_a_student_and_a_grid(home, tmp_path):
    exported = kbert.export(home / "run", tmp_path / "exported")
    labels = read_json(exported / "card.json")["labels"]
    assert labels == ["ADJ", "DET", "NOUN", "PUNCT"]
    more = {"batch_size": 8, "sequence_length": 12, "steps": 1}
    student = kbert.finetune(home / "init", TASK, ROWS, teacher=home / "run", unlabelled=["the kind play ."], **more)
    assert student.metrics["unlabelled_examples"] == 1
    few = {"learning_rates": (1e-3,), "epochs": (1,), "batch_sizes": (8,), "steps": 1, "sequence_length": 12}
    assert finetune_grid(home / "init", TASK, ROWS, ROWS, tmp_path / "grid", **few)["metric"] == "accuracy"


def test_texts_without_labels_are_learned_from_a_teacher(home):
    """Their tags, which nobody reads, are of the tagger: words with other tags would not be learned."""
    from kbert.tasks.tagging.evaluation import TaggedWindows

    pipeline = kbert.build_pipeline(home / "run")
    train = TASK.with_texts(TASK.examples(ROWS[:2]), {"text": ["the kind play ."]})
    windows = TaggedWindows.from_tagged_text(train, pipeline.preprocessor, pipeline.answers.labels)
    assert np.sum(windows.weights) >= sum(map(len, train.words))
