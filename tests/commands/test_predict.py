"""predict.py: every kind of input and output; nothing half written."""

import csv
import importlib
import json

import pytest
from helpers.run_recipe import read_json, run_kbert
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.serving import exported_pipeline
from kbert.serving.exported_pipeline import trained_options
from kbert.tasks.table import TABLES

TEXTS = ["The film is good.", "", 'a "very, bad" film\u2028!', "中 é", "good", "never never", "was bad"]
PAIRS = ["Good?", "never", "", "paris", "the capital", "x", "is"]
LABELS = ["bad", "good"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The directory with a model of every kind, and their pipelines."""
    path, tokenizer, config = tmp_path_factory.mktemp("models"), tiny_tokenizer(), tiny_config(num_layers=1)
    pipelines = {
        "single": kbert.build_pipeline(kbert.BertClassifier(config), tokenizer, labels=LABELS),
        "pair": kbert.build_pipeline(kbert.BertClassifier(config), tokenizer, labels=LABELS, pair=True),
        "regression": kbert.build_pipeline(kbert.BertRegressor(config), tokenizer),
        "fill_mask": kbert.build_pipeline(kbert.BertPretrainer(config), tokenizer, top_k=2),
    }
    for name, pipeline in pipelines.items():
        randomise(pipeline.model)
        kbert.save_pretrained(pipeline, path / name)
    return path, pipelines


def predict(models, kind, source, output, *more):
    run_kbert("predict", "--source", models[0] / kind, "--input", source, "--output", output, "--batch-size", 3, *more)


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def write_table(path, **columns):
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(columns), *rows])
    else:
        path.write_text("\n".join("\t".join(row) for row in [list(columns), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("eagerly")  # traced: finetuning/test_predict_file.py
def test_lines_to_jsonl(models, tmp_path):
    source = tmp_path / "texts.txt"
    source.write_bytes("\ufeff".encode() + "\r\n".join(TEXTS).encode() + b"\nbyte \xff film")
    predict(models, "single", source, tmp_path / "deep/er/answers.jsonl")
    rows = read_jsonl(tmp_path / "deep/er/answers.jsonl")
    about = read_json(tmp_path / "deep/er/answers.jsonl.metrics.json")
    assert about["texts"] == 8 and about["settings"]["batch_size"] == 3 and about["settings"]["input"] == str(source)
    texts = [*TEXTS, "byte \ufffd film"]
    assert [row["text"] for row in rows] == texts
    expected = models[1]["single"].predict([*TEXTS, b"byte \xff film".decode("utf-8", "replace")], verbose=0)
    assert [row["label"] for row in rows] == expected["label"].tolist()
    for row, probabilities in zip(rows, expected["probabilities"], strict=True):
        assert list(row["probabilities"].values()) == pytest.approx(probabilities, abs=1e-5)


# The other formats: test_a_table_is_read_as_it_is_answered of finetuning/test_predict_file.py.
@pytest.mark.parametrize("kind", slow_but((".csv",), (".csv", ".tsv", ".jsonl")))
@pytest.mark.usefixtures("eagerly")
def test_tables_of_pairs_to_csv(models, tmp_path, kind):
    columns = {"id": [f"{i}" for i in range(7)], "one": TEXTS, "two": PAIRS, "other": ["x"] * 7}
    source = write_table(tmp_path / f"pairs{kind}", **columns)
    more = ("--text", "one", "--text-pair", "two", "--keep", "id")
    predict(models, "pair", source, tmp_path / "answers.csv", *more)
    with open(tmp_path / "answers.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["one", "two", "id", "label", "probability_bad", "probability_good"]
    assert [row["one"] for row in rows] == TEXTS and [row["id"] for row in rows] == columns["id"]
    expected = models[1]["pair"].predict({"text": TEXTS, "text_pair": PAIRS}, verbose=0)
    assert [row["label"] for row in rows] == expected["label"].tolist()
    assert [float(row["probability_good"]) for row in rows] == pytest.approx(expected["probabilities"][:, 1], abs=1e-5)


ASKED = {"text": "asked", "text_pair": "answered", "label": "right"}
MADE_BY = {"settings": {"task": {"task": "classification"} | ASKED}}


@pytest.mark.usefixtures("eagerly")
def test_columns_that_the_model_was_trained_on_are_the_default(models, tmp_path):
    kbert.save_pretrained(models[1]["pair"], tmp_path / "model", made_by=MADE_BY)
    trained = write_table(tmp_path / "trained.csv", asked=TEXTS, answered=PAIRS)
    plain = write_table(tmp_path / "plain.jsonl", text=TEXTS, text_pair=PAIRS)
    found = {}
    for source, *more in [(trained,), (plain,), (trained, "--text", "answered")]:
        predict((tmp_path,), "model", source, tmp_path / "out.jsonl", *more, "--overwrite")
        found[(source.suffix, *more)] = read_jsonl(tmp_path / "out.jsonl")
    rows, named, swapped = found.values()
    assert [list(row)[:2] for row in (rows[0], named[0])] == [["asked", "answered"], ["text", "text_pair"]]
    scores = [[row["probabilities"]["good"] for row in some] for some in (rows, named, swapped)]
    assert scores[0] == scores[1] and scores[2] != scores[0]


def test_an_export_says_on_which_columns_it_was_trained(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "card.json").write_text(json.dumps({"made_by": {"run": MADE_BY}}))
    fields = trained_options(tmp_path)
    assert {name: fields[name] for name in ("text", "text_pair")} == {"text": "asked", "text_pair": "answered"}


@pytest.mark.usefixtures("eagerly")
def test_what_is_kept_of_json_lines_stays_as_it_is(models, tmp_path):
    kept = {"number": 1.50, "flag": True, "list": [1, {"a": None}]}
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": 5, **kept}) + "\n")
    predict(models, "single", tmp_path / "t.jsonl", tmp_path / "a.jsonl", "--keep", *kept, "text")
    (row,) = read_jsonl(tmp_path / "a.jsonl")
    assert list(row) == ["text", *kept, "label", "probabilities"]
    assert {name: row[name] for name in ("text", *kept)} == {"text": "5", **kept}
    with pytest.raises(SystemExit, match="t.jsonl, line 1: expected the keys .'id'"):
        predict(models, "single", tmp_path / "t.jsonl", tmp_path / "b.jsonl", "--keep", "id")


def test_columns_of_every_table_can_be_kept(models, tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(exported_pipeline, "open_pipeline", lambda *arguments, **options: None)
    module = importlib.import_module("kbert.finetuning.predict_file")  # the package has a function of this name
    monkeypatch.setattr(module, "predict_file", lambda *arguments, keep, **options: kept.append(keep) or 1)
    for suffix in TABLES:
        predict(models, "single", tmp_path / f"t{suffix}", tmp_path / f"{suffix[1:]}.jsonl", "--keep", "id")
    assert kept == [["id"]] * len(TABLES)


@pytest.mark.usefixtures("eagerly")
def test_the_same_name_in_another_format(models, tmp_path):
    (tmp_path / "t.txt").write_text("good\n")
    for name in ("a.jsonl", "a.csv"):
        predict(models, "single", tmp_path / "t.txt", tmp_path / name)
    assert read_json(tmp_path / "a.csv.metrics.json")["texts"] == read_json(tmp_path / "a.jsonl.metrics.json")["texts"]


@pytest.mark.usefixtures("eagerly")
def test_whether_a_text_goes_on(models, tmp_path):
    model = kbert.load_pretrained(models[0] / "fill_mask", task="next_sentence")
    kbert.save_pretrained(kbert.build_pipeline(model), tmp_path / "next")
    (tmp_path / "t.txt").write_text("good\tbad\nfilm\tfilm\n")
    predict((tmp_path,), "next", tmp_path / "t.txt", tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == "text,text_pair,is_next" and len(lines) == 3
    assert all(0 < float(line.split(",")[2]) < 1 for line in lines[1:])


@pytest.mark.usefixtures("eagerly")
def test_lines_of_pairs_and_a_replaced_output(models, tmp_path):
    source, output = tmp_path / "pairs.txt", tmp_path / "answers.jsonl"
    source.write_text("good film\tbad film\n\tParis\n")
    output.write_text("old")
    with pytest.raises(SystemExit):
        predict(models, "pair", source, output)
    assert output.read_text() == "old"
    predict(models, "pair", source, output, "--overwrite")
    assert [(row["text"], row["text_pair"]) for row in read_jsonl(output)] == [("good film", "bad film"), ("", "Paris")]


@pytest.mark.usefixtures("eagerly")
def test_scores_and_masks(models, tmp_path):
    source = tmp_path / "texts.txt"
    source.write_text("good [MASK]\nnone\n")
    predict(models, "regression", source, tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().splitlines()[0] == "text,score"
    predict(models, "fill_mask", source, tmp_path / "masks.jsonl", "--top-k", 3, "--sequence-length", 9)
    rows = read_jsonl(tmp_path / "masks.jsonl")
    assert [len(row["masks"]) for row in rows] == [1, 0] and len(rows[0]["masks"][0]) == 3
    best = models[1]["fill_mask"].predict(["good [MASK]"], verbose=0)
    assert rows[0]["masks"][0][0]["token"] == best["tokens"][0, 0, 0]


@pytest.mark.parametrize(
    "kind,name,content,more,message",
    [
        ("pair", "p.txt", "a\tb\nonly one\n", (), "line 2: expected 2 texts separated by tabs"),
        ("single", "t.csv", "txt,label\na,b\n", (), "missing: .'text'.. --text .in Python `columns`. can name"),
        ("fill_mask", "t.csv", "question,context\na,b\n", (), r"inputs \['text'\] of a pretraining model. Received: "),
        ("single", "t.txt", "", ("--output", "new/er/answers.jsonl"), "contains no text"),
        ("fill_mask", "t.txt", "[MASK]\n", ("--output", "answers.csv"), "give --output a name in .jsonl"),
        ("single", "t.txt", "good\n", ("--output", "answers.txt"), "must end in .jsonl or .csv"),
        ("single", "t.txt", "good\n", ("--keep", "id"), "`keep` needs an input with columns"),
    ],
)
@pytest.mark.usefixtures("eagerly")
def test_errors_are_one_line_and_leave_nothing(models, tmp_path, monkeypatch, kind, name, content, more, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit, match=message):
        predict(models, kind, name, "answers.jsonl", *more)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("flags", [("--top-k", 3), ("--tagging-output", "tags"), ("--null-threshold", "off")])
def test_a_flag_of_another_task_is_an_error(models, tmp_path, flags):
    source = write_table(tmp_path / "in.csv", text=TEXTS)
    with pytest.raises(SystemExit, match=r"error: build_pipeline: a classification model takes the options \['seq"):
        predict(models, "single", source, tmp_path / "out.jsonl", *flags)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.usefixtures("eagerly")
def test_what_is_stored_is_kept_turned_off_or_replaced(models, tmp_path, monkeypatch):
    """What the options do: pipelines/test_options.py."""
    given = []

    def loader(source, precision, **options):
        given.append(options)
        return models[1]["single"]

    monkeypatch.setattr(exported_pipeline, "open_pipeline", loader)
    source = write_table(tmp_path / "in.csv", text=TEXTS[:2])
    for flags, options in (
        ((), {}),
        (("--null-threshold", "off"), {"null_threshold": None}),
        (("--null-threshold", 1e6), {"null_threshold": 1e6}),
        (("--window-pooling", "off"), {"window_pooling": None}),
        (("--window-pooling", "mean"), {"window_pooling": "mean"}),
    ):
        predict(models, "single", source, tmp_path / "out.jsonl", *flags, "--overwrite")
        assert given.pop() == options
    with pytest.raises(SystemExit):
        predict(models, "single", source, tmp_path / "other.jsonl", "--null-threshold", "nan")
    assert not given
