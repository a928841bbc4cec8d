"""The checks of arguments, and flags that are no bool: a string would count as true."""

import pathlib
from typing import Annotated

import numpy as np
import pytest
from helpers.tiny_bert import VOCABULARY, tiny_config, tiny_tokenizer

import kbert
from kbert.answers.embedding import EmbeddingAnswers
from kbert.checks import Bounds, check_labels, check_option, check_path, differing, shown
from kbert.corpus.write_records import write_records
from kbert.finetuning.predict_file import predict_file
from kbert.inspection import MaskedExamples, TensorBoard
from kbert.layers.attention_bias import AttentionBias
from kbert.optim.lamb import Lamb
from kbert.options import Count, FractionBelowOne, Natural
from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.serving.exported_pipeline import ExportedPipeline, open_pipeline
from kbert.tasks.labelled_text import label_ids
from kbert.tasks.table import Table
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.training.run_directory import open_run

ONE = tiny_config(num_layers=1)
TASK, ROW = kbert.tasks.Regression(), [("a", 1.0), ("b", 2.0)]


@pytest.fixture(scope="module")
def pipeline():
    return kbert.build_pipeline(kbert.BertEncoder(ONE), tiny_tokenizer())


def refused(rows, values, error, message):
    """Each call (call, name of its argument) refuses each wrong value by an error that begins with the message."""
    for call, name in rows:
        for wrong in values:
            with pytest.raises(error, match=f"^{message}".format(name=name, wrong=repr(wrong))):
                call(wrong)


def test_integers():
    found = [check_option("f", "x", value, Natural) for value in (3, np.int64(4), np.uint8(0))]
    assert found == [3, 4, 0] and set(map(type, found)) == {int}
    for value in (0, -1, 1.0, "1", None, True, np.float32(1), np.True_, np.array([1])):
        with pytest.raises(ValueError, match="^f: `x` must be a positive integer. Received: "):
            check_option("f", "x", value, Count)
    with pytest.raises(ValueError, match="^f: `x` must be an integer of at least 5. Received: 4"):
        check_option("f", "x", 4, Annotated[int, Bounds("[5, inf)")])


def test_a_setting_that_is_missing_is_none():
    there = {"steps": 1, "held_out": None, "grid": {"seeds": [0], "rate": None}, "phases": [{"fraction": 1.0}]}
    now = {"steps": 1, "packed": None, "grid": {"seeds": (0,)}, "phases": [{"fraction": 1.0, "rate": None}]}
    assert differing(there, now) == differing(now, there) == []
    assert differing(there, now | {"held_out": 0.0, "grid": {}, "steps": 2}) == ["grid", "held_out", "steps"]


def test_numbers():
    found = [check_option("f", "x", value, FractionBelowOne) for value in (0, np.float32(0.5), np.int64(0))]
    assert found == [0.0, 0.5, 0.0] and set(map(type, found)) == {float}
    for value in (1, -0.1, "0.5", None, True, float("nan"), 0.5j, np.array([0.5])):
        with pytest.raises(ValueError, match=r"^f: `x` must be a number in \[0, 1\). Received: "):
            check_option("f", "x", value, FractionBelowOne)


def test_counts_of_numpy_are_stored_as_pythons(tmp_path):
    pipeline = kbert.build_pipeline(kbert.BertEncoder(ONE), tiny_tokenizer(), sequence_length=np.int64(9))
    assert type(pipeline.preprocessor.sequence_length) is int
    kbert.save_pretrained(pipeline, tmp_path / "it")
    write_records([["a"]], tiny_tokenizer(), tmp_path / "records", shard_tokens=np.int64(9), held_out=np.float32(0))


def test_bools():
    for value in (True, False, np.True_, np.False_):
        found = check_option("f", "x", value, bool)
        assert type(found) is bool and found == value
    for value in ("no", "", 0, 1, 1.0, None, np.array([True])):
        with pytest.raises(ValueError, match="^f: `x` must be True or False. Received: "):
            check_option("f", "x", value, bool)


def test_labels():
    for labels in (["a", "b"], ("a", "b"), np.array(["a", "b"]), np.array(["a", "b"], object)):
        assert check_labels(labels, "f") == ["a", "b"]
        assert {type(label) for label in check_labels(labels, "f")} == {str}
    for labels in ("ab", [], (), {"a", "b"}, {"a": 1}, iter("ab"), ["a", 1], 3, np.array([["a"]]), np.array("a")):
        with pytest.raises(ValueError, match="^f: `labels` must be .*Received: "):
            check_labels(labels, "f")
    for labels in ([], ["a", "b", "a"]):
        with pytest.raises(ValueError, match="^f: `labels` must be different strings, at least one. Received: "):
            check_labels(labels, "f")


MADE = {
    "BertConfig": (lambda **flag: tiny_config(**flag), "causal"),
    "BertTokenizer": (
        lambda **flag: kbert.BertTokenizer(VOCABULARY, **flag),
        "lowercase strip_accents split_on_cjk special_tokens_in_text",
    ),
    "BertEncoder": (lambda **flag: kbert.BertEncoder(ONE, **flag), "pooler"),
    "BertPretrainer": (lambda **flag: kbert.BertPretrainer(ONE, **flag), "next_sentence masked_lm tied"),
    "BertClassifier": (lambda **flag: kbert.BertClassifier(ONE, **flag), "multi_label"),
    "AttentionBias": (AttentionBias, "causal"),
    "AdamW": (kbert.AdamW, "bias_correction"),
    "Lamb": (Lamb, "bias_correction"),
    "EmbeddingAnswers": (EmbeddingAnswers, "normalize"),
    "TextPreprocessor": (lambda **flag: TextPreprocessor(tiny_tokenizer(), 9, **flag), "pair"),
    "FillMaskPreprocessor": (
        lambda **flag: FillMaskPreprocessor(tiny_tokenizer(), 9, **flag),
        "causal special_tokens_in_text",
    ),
    "TensorBoard": (lambda **flag: TensorBoard("logs", **flag), "wait_for_finish"),
}


@pytest.mark.parametrize("owner, flag", [(owner, flag) for owner, (_, flags) in MADE.items() for flag in flags.split()])
def test_a_flag_of_a_class_must_be_a_bool(owner, flag):
    with pytest.raises(ValueError, match=f"^{owner}: `{flag}` must be True or False. Received: 'no'"):
        MADE[owner][0](**{flag: "no"})


def test_flags_of_functions(tmp_path, pipeline):
    kbert.save_pretrained(pipeline, tmp_path / "it")
    before = (tmp_path / "it" / "kbert.json").read_bytes()
    rows = [
        (lambda wrong: kbert.save_pretrained(pipeline, tmp_path / "it", overwrite=wrong), "overwrite"),
        (lambda wrong: kbert.export(pipeline, tmp_path / "served", frozen_weights=wrong), "frozen_weights"),
        (lambda wrong: kbert.inspect(pipeline, directory=tmp_path / "it", overwrite=wrong), "overwrite"),
        (lambda wrong: predict_file(pipeline, __file__, tmp_path / "out.jsonl", overwrite=wrong), "overwrite"),
        (lambda wrong: write_records([["a"]], tiny_tokenizer(), tmp_path / "records", overwrite=wrong), "overwrite"),
        (lambda wrong: open_run(tmp_path / "run", {}, overwrite=wrong), "overwrite"),
        (lambda wrong: learn_vocabulary(["a"], 100, lowercase=wrong), "lowercase"),
        (lambda wrong: learn_vocabulary(["a"], 100, strip_accents=wrong), "strip_accents"),
        (lambda wrong: learn_vocabulary(["a"], 100, split_on_cjk=wrong), "split_on_cjk"),
    ]
    refused(rows, ["no"], ValueError, ".*`{name}` must be True or False( or None)?. Received: {wrong}")
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    assert (tmp_path / "it" / "kbert.json").read_bytes() == before


def test_numpys_bools_are_stored_as_json_has_them(tmp_path):
    model = kbert.BertClassifier(tiny_config(num_layers=1, causal=np.False_), multi_label=np.True_)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(lowercase=np.True_), pair=np.True_)
    kbert.save_pretrained(pipeline, tmp_path / "it", overwrite=np.False_)
    assert kbert.build_pipeline(kbert.load_pretrained(tmp_path / "it")).settings() == pipeline.settings()


def test_paths():
    assert check_path("a/b", "f: `x`") == check_path(pathlib.Path("a/b"), "f: `x`") == pathlib.Path("a/b")
    for value in (None, 3, b"a", ["a"]):
        with pytest.raises(TypeError, match=f"^f: `x` must be a path. Received: {type(value).__name__}$"):
            check_path(value, "f: `x`")
    with pytest.raises(ValueError, match="^f: `x` must be a path. Received: an empty string$"):
        check_path("", "f: `x`")


def test_a_directory_is_no_file_and_not_below_one(tmp_path, pipeline):
    file, made = tmp_path / "file", [["a"], ["b"]]
    file.write_text("precious")
    rows = [
        (lambda place: kbert.save_pretrained(pipeline, place), "save_pretrained: `directory`"),
        (lambda place: kbert.export(pipeline, place), "export: `directory`"),
        (lambda place: kbert.finetune(pipeline, TASK, ROW, output=place), "finetune: `output`"),
        (lambda place: kbert.finetune(pipeline, TASK, ROW, log_dir=place), "finetune: `log_dir`"),
        (lambda place: kbert.pretrain(made, vocabulary=tiny_tokenizer(), steps=1, output=place), "pretrain: `output`"),
        (lambda place: kbert.inspect(pipeline, directory=place), "inspect: `directory`"),
        (lambda place: kbert.inspect(pipeline, log_dir=place), "inspect: `log_dir`"),
        (lambda place: write_records(made, tiny_tokenizer(), place), "write_records: `directory`"),
        (lambda place: open_run(place, {}), "`output`"),
        (lambda place: TensorBoard(place), "TensorBoard: `log_dir`"),
        (lambda place: kbert.inspection.DevExamples(kbert.training.DevScoring(dict, "x"), place), "`log_dir`"),
    ]
    refused(rows, [file, file / "a/b"], NotADirectoryError, f"{{name}} must be a directory.*; {file} is a file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and file.read_text() == "precious"
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(NotADirectoryError, match=r"link is a link to .*gone, which does not exist"):
        open_run(tmp_path / "link", {})
    assert (tmp_path / "link").is_symlink() and not (tmp_path / "gone").exists()


def test_numbers_are_named(pipeline):
    examples, larger = TASK.examples(ROW), tiny_config(num_layers=2)
    rows = [
        (lambda wrong: kbert.pretraining.token_counts("x", tiny_tokenizer(), wrong), "token_counts: `max_tokens`"),
        (lambda wrong: kbert.evaluate(pipeline, TASK, ROW, batch_size=wrong), "evaluate: `batch_size`"),
        (lambda wrong: predict_file(pipeline, __file__, "a.jsonl", batch_size=wrong), "predict_file: `batch_size`"),
        (lambda wrong: kbert.training.choose_hardware(logical_cpus=wrong), "choose_hardware: `logical_cpus`"),
        (lambda wrong: kbert.training.DevScoring(dict, "x", patience=wrong), "DevScoring: `patience`"),
        (lambda wrong: MaskedExamples([], ({}, {}, {}), "logs", examples=wrong), "MaskedExamples: `examples`"),
    ]
    refused(rows, ("x", 0, True), ValueError, "{name} must be a positive integer( or None)?. Received: {wrong}")
    rows = [
        (lambda wrong: examples.split(0.5, seed=wrong), "split: `seed`"),
        (lambda wrong: examples.split(wrong), "split: `held_out`"),
        (lambda wrong: kbert.models.grow_model(kbert.BertPretrainer(ONE), larger, seed=wrong), "grow_model: `seed`"),
    ]
    refused(rows, ("x", True), ValueError, "{name} must be .*Received: {wrong}")
    refused([(lambda wrong: TensorBoard("logs", profile=wrong), "")], [True], ValueError, ".*`profile` must be steps")


def test_parts_of_a_pipeline(pipeline):
    parts = {name: getattr(pipeline, name) for name in ("preprocessor", "model", "answers")}
    for part, value in parts.items():
        for wrong in (None, pipeline, type(value)):
            with pytest.raises(TypeError, match=f"^Pipeline: `{part}` must be a .*Received: "):
                kbert.Pipeline(**parts | {part: wrong})


def test_a_path_that_is_none_names_its_argument(pipeline):
    encoder, adapted = kbert.BertEncoder(ONE), kbert.BertEncoder(ONE)
    adapted.enable_lora(2)
    rows = [
        (lambda wrong: kbert.load_pretrained(wrong), "source"),
        (lambda wrong: kbert.save_pretrained(pipeline, wrong), "directory"),
        (lambda wrong: ExportedPipeline(wrong), "directory"),
        (lambda wrong: open_pipeline(wrong), "source"),
        (lambda wrong: kbert.evaluate([pipeline, wrong], TASK, ROW), "pipeline"),
        (lambda wrong: kbert.text.read_vocabulary(wrong), "path"),
        (lambda wrong: kbert.text.write_vocabulary(wrong, VOCABULARY), "path"),
        (lambda wrong: next(kbert.corpus.read_documents(wrong)), "patterns"),
        (lambda wrong: kbert.corpus.read_documents([wrong]).__next__(), "patterns"),
        (lambda wrong: kbert.corpus.Records(wrong), "directory"),
        (lambda wrong: kbert.models.average_models(wrong), "models"),
        (lambda wrong: kbert.models.average_models([wrong]), "models"),
        (lambda wrong: TensorBoard(wrong), "log_dir"),
        (lambda wrong: kbert.inspection.DevExamples(kbert.training.DevScoring(dict, "x"), wrong), "log_dir"),
        (lambda wrong: kbert.tasks.glue("SST-2").dev_sets(wrong), "path"),
        (lambda wrong: kbert.serving.trained_options(wrong), "source"),
        (lambda wrong: kbert.weights.load_adapter(encoder, wrong), "directory"),
        (lambda wrong: kbert.weights.save_adapter(adapted, wrong), "directory"),
    ]
    refused(rows, (None, 3), TypeError, ".*`{name}` must be .*Received: (NoneType|int)")
    rows = [
        (lambda wrong: kbert.export(pipeline, wrong), "export: `directory`"),
        (lambda wrong: kbert.audit(wrong), "audit: `saved_model`"),
        (lambda wrong: predict_file(pipeline, wrong, "a.jsonl"), "predict_file: `source`"),
        (lambda wrong: predict_file(pipeline, "a", wrong), "predict_file: `output`"),
    ]
    refused(rows, (None, 3), ValueError, "{name} must be a path. Received: {wrong}")
    rows = [
        (lambda wrong: kbert.inspect(pipeline, directory=wrong), "inspect: `directory`"),
        (lambda wrong: kbert.inspect(pipeline, log_dir=wrong), "inspect: `log_dir`"),
    ]
    refused(rows, (3,), ValueError, "{name} must be a path or None. Received: {wrong}")
    rows = [
        (lambda wrong: kbert.evaluate(wrong, TASK, ROW), "evaluate: `pipeline`"),
        (lambda wrong: kbert.finetune(wrong, TASK, ROW), "finetune: `source`"),
        (lambda wrong: kbert.inspect(wrong), "inspect: `model`"),
    ]
    refused(rows, (None,), TypeError, ".*must be .*Received: NoneType")
    # pathlib takes "" for the current directory, which may hold a model
    sources = [(kbert.load_pretrained, "`source`"), (kbert.build_pipeline, "`source`"), rows[0], rows[1]]
    refused(sources, ("",), ValueError, ".*{name} must be the path of a model .*Received: an empty string")
    rows += [
        (lambda wrong: kbert.finetune(pipeline, TASK, wrong), "finetune: `train`"),
        (lambda wrong: kbert.finetune(pipeline, TASK, ROW, wrong), "finetune: `dev`"),  # such as a percentage
    ]
    refused(rows, (3, 1.5), ValueError, "{name} must be .*a path, .*Received: ")
    rows = [
        (lambda wrong: kbert.load_pretrained("x", vocabulary=wrong), "load_pretrained: `vocabulary`"),
        (lambda wrong: kbert.build_pipeline(encoder, wrong), "build_pipeline: `tokenizer`"),
        (lambda wrong: kbert.save_pretrained(encoder, "x", tokenizer=wrong), "save_pretrained: `tokenizer`"),
    ]
    refused(rows, [3], TypeError, "{name} must be .*Received: int")
    with pytest.raises(ValueError, match="^inspect: `tokenizer` must be a BertTokenizer or None. Received: 3"):
        kbert.inspect(encoder, tokenizer=3)
    with pytest.raises(ValueError, match="^evaluate: `task` must be a Task, a dict or None. Received: 3"):
        kbert.evaluate(pipeline, 3, ROW)
    for name in ("output", "log_dir"):
        with pytest.raises(ValueError, match=f"^finetune: `{name}` must be a path or None. Received: 3"):
            kbert.finetune(pipeline, TASK, ROW, **{name: 3})
    with pytest.raises(ValueError, match="^evaluate: `pipeline` must be a model, or a list of at least one"):
        kbert.evaluate([], TASK, ROW)


def test_a_note_that_json_cannot_hold(tmp_path, pipeline):
    for wrong in ({"x": {1}}, "me", {"x": float("nan")}):
        with pytest.raises(ValueError, match="^save_pretrained: `made_by` must (be a dict|fit into JSON)"):
            kbert.save_pretrained(pipeline, tmp_path / "it", made_by=wrong)
    assert not list(tmp_path.iterdir())


def test_what_inspect_cannot_read(pipeline):
    with pytest.raises(TypeError, match="^inspect: `texts` must be a list of strings. Received: dict"):
        kbert.inspect(pipeline, {"text": ["a"]})
    for seed in (-1, "x"):
        with pytest.raises(ValueError, match="^inspect: `seed` must be an integer of at least 0"):
            kbert.inspect(pipeline, seed=seed)
    for data, message in [
        ({"text": ["a", None], "label": ["x", "y"]}, "row 1: expected a text in 'text'. Received: None"),
        ({"text": ["a", "b"], "label": ["x", float("nan")]}, "row 1: expected a label in 'label'. Received: nan"),
        ({"words": [["a"], None], "tags": [["O"], ["O"]]}, "sentence 1: expected a list of words. Received: None"),
        ({"words": [["a"], ["b"]], "pos": [["X"], None]}, "sentence 1: expected 1 of 'pos', one for each word"),
        ({"words": [["a"], ["b"]], "pos": [["X"], [None]]}, "sentence 1: expected 1 of 'pos', one for each word"),
    ]:
        with pytest.raises(ValueError, match=f"^inspect: `data`, {message}"):
            kbert.inspect(pipeline, data=data)


def test_errors_quote_the_beginning_of_long_values():
    assert shown("a" * 78) == repr("a" * 78) and shown("it's") == '"it\'s"'
    for value in ("a" * 10**6, b"a" * 10**6, ["a" * 1000], list(range(10**6)), {"a": "b" * 100}, None, 3):
        assert len(shown(value)) <= 80 and repr(value).startswith(shown(value).removesuffix("…"))
    assert shown("a" * 100).endswith("a…") and len(shown("a" * 1000, 200)) == 200


def test_a_column_of_texts_taken_for_labels_is_quoted_in_short():
    with pytest.raises(ValueError) as caught:
        label_ids(Table(None, [0], {"text": ["x" * 10**6]}), "text", ["y" * 10**6] * 3)
    assert len(str(caught.value)) < 1000
