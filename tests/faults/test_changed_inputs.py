"""What changes between kill and resume is found: a run never goes on with other inputs than it was started with."""

import ast
import importlib
import pathlib

import pytest
from helpers.run_recipe import RECIPES, as_flags, import_recipe, run_recipe
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.command_line import inputs_of
from kbert.corpus.write_records import write_records
from kbert.finetuning import finetuning
from kbert.tasks.glue_benchmark.submission import collect_models
from kbert.training import resume


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Inputs of both recipes: a corpus, its records, a vocabulary, models, a table."""
    path = tmp_path_factory.mktemp("made")
    write_lines(path / "corpus.txt", make_documents(60))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_tiny_directory(path / "init")
    write_table(path / "train.csv", sentences(40))
    _write_records(path / "records", seed=0)
    return path


def _write_records(path, seed):
    documents, tokenizer = make_documents(60), make_tokenizer()
    write_records(documents, tokenizer, path, shard_tokens=300, held_out=0.2, seed=seed, overwrite=True)


def _pretrain(path, *source):
    return (
        "pretrain",
        *source,
        *(as_flags(held_out=0.2) if "--corpus" in source else ()),
        *as_flags(steps=4, batch_size=4, sequence_length=16, evaluation_batches=1, output=path / "run"),
    )


def _finetune(path):
    return (
        "finetune_classifier",
        *as_flags(train=path / "train.csv", text_column="text", label_column="label", init=path / "init", steps=4),
        *as_flags(sequence_length=9, output=path / "run"),
    )


def _permute(path):
    tokens = path.read_text().split("\n")
    path.write_text("\n".join([*tokens[:7], *reversed(tokens[7:-1]), ""]))


def _other_weights(path):
    model = kbert.load_pretrained(path)
    model.encoder.set_weights([weight + 0.5 for weight in model.encoder.get_weights()])
    kbert.save_pretrained(model, path, overwrite=True)


def _invert(path):
    swapped = {"good": "bad", "bad": "good"}
    write_table(path, [(text, swapped[label]) for text, label in sentences(40)])


CHANGES = {
    "vocabulary permuted": (
        lambda path: _pretrain(path, "--corpus", path / "corpus.txt", "--vocab", path / "vocab.txt"),
        lambda path: _permute(path / "vocab.txt"),
        r"vocab.txt \(--vocab\) has changed",
    ),
    "corpus replaced": (
        lambda path: _pretrain(path, "--corpus", path / "corpus.txt", "--vocab", path / "vocab.txt"),
        lambda path: write_lines(path / "corpus.txt", make_documents(60, seed=1)),
        r"corpus.txt \(--corpus\) has changed",
    ),
    "records written anew": (
        lambda path: _pretrain(path, "--records", path / "records"),
        lambda path: _write_records(path / "records", seed=1),
        r"records/manifest.json \(--records\) has changed",
    ),
    "labels inverted": (_finetune, lambda path: _invert(path / "train.csv"), r"train.csv \(--train\) has changed"),
    "init replaced": (
        _finetune,
        lambda path: _other_weights(path / "init"),
        r"init/model.weights.h5 \(--init\) has changed",
    ),
    "init replaced, pre-training": (
        lambda path: _pretrain(path, "--corpus", path / "corpus.txt", "--init", path / "init"),
        lambda path: _other_weights(path / "init"),
        r"init/model.weights.h5 \(--init\) has changed",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_changes_between_kill_and_resume_is_named(made, tmp_path, monkeypatch, case):
    arguments, change, message = CHANGES[case]
    for source in made.rglob("*"):
        target = tmp_path / source.relative_to(made)
        target.mkdir(exist_ok=True) if source.is_dir() else target.write_bytes(source.read_bytes())

    def fit_steps(*args, **kwargs):
        raise RuntimeError("killed")

    monkeypatch.setattr(resume, "fit_steps", fit_steps)
    monkeypatch.setattr(finetuning, "fit_steps", fit_steps)
    pretrain = importlib.import_module("kbert.pretraining.run.run_pretraining")
    monkeypatch.setattr(pretrain, "fit_steps", fit_steps)
    monkeypatch.setattr(pretrain, "choose_packing", lambda settings, tokenizer: settings.with_packing(False))
    monkeypatch.setattr(pretrain, "make_evaluations", lambda *args: {0: [None]})  # what is read is looked at before
    monkeypatch.setattr(pretrain, "describe_data", lambda *args: ([{"padding_share": 0.0}], {}, None))
    monkeypatch.setattr(pretrain, "baseline_curves", lambda unigram: {})
    for callback in ("TensorBoard", "MaskedExamples"):
        monkeypatch.setattr(pretrain, callback, lambda *args, **options: None)
    with pytest.raises(RuntimeError, match="killed"):
        run_recipe(*arguments(tmp_path))
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    with pytest.raises(RuntimeError, match="killed"):  # the same inputs: it resumes
        run_recipe(*arguments(tmp_path))
    change(tmp_path)
    with pytest.raises(SystemExit, match=f"error: .*{message}.*Restore the original inputs") as error:
        run_recipe(*arguments(tmp_path))
    assert "\n" not in str(error.value)
    after = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    before.pop(tmp_path / "run" / ".lock")
    after.pop(tmp_path / "run" / ".lock", None)
    assert after == before


def _calls(name, function):
    tree = ast.parse((RECIPES / f"{name}.py").read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", None) == function]


# Recipes that train leave this to the library: tests/tasks/test_finetune.py.
RESUMING = sorted(path.stem for path in RECIPES.glob("*.py") if _calls(path.stem, "open_run"))


def test_the_recipes_that_resume_are_known():
    assert RESUMING == ["embed_sentences", "evaluate", "feature_based_ner", "submit_glue"]


FLAGS = {  # recipe -> (flags that it needs, those among them that are no paths but name what it reads)
    "embed_sentences": (["--model", "init", "--input", "train.csv"], {"model"}),
    "evaluate": (["--model", "init", "--data", "train.csv", "--text-column", "a", "--label-column", "b"], set()),
    "feature_based_ner": (["--train", "train.csv", "--init", "init"], set()),
    "submit_glue": (["--data", "glue", "--model", "SST-2=init"], {"model"}),
}


def _is_read(value):
    return all(isinstance(one, pathlib.Path) for one in (value if isinstance(value, list) else [value]))


@pytest.mark.parametrize("name", RESUMING)
def test_every_recipe_that_resumes_tells_all_that_it_reads(made, tmp_path, monkeypatch, name):
    """Each flag that is a path is an input by itself; those that are patterns or names are given by hand."""
    monkeypatch.chdir(made)
    for file in ("dev.csv", "glue/train.tsv", "glue/dev.tsv", "glue/test.tsv"):
        pathlib.Path(file).parent.mkdir(exist_ok=True)
        pathlib.Path(file).write_text("sentence\tlabel\nthe good film\t1\n")
    recipe = import_recipe(name)
    needed, by_hand = FLAGS[name]
    args = recipe.parse_arguments([*needed, "--output", str(tmp_path / "run")])
    given = {flag[2:] for flag in needed if flag.startswith("--")}
    values = {flag: getattr(args, flag.replace("-", "_")) for flag in given}
    paths = {flag for flag, value in values.items() if _is_read(value)} | by_hand
    existing = {
        flag
        for flag, value in zip(needed[::2], needed[1::2], strict=True)
        if pathlib.Path(value.split("=")[-1]).exists()
    }
    assert paths == {flag[2:] for flag in existing}
    if name == "submit_glue":
        inputs = recipe.read_by(args, collect_models(args.runs, args.model, args.constant))
    else:
        inputs = inputs_of(args, **{flag: getattr(args, flag) for flag in by_hand})
    assert set(inputs) >= {flag.replace("-", "_") for flag in paths}
    for call in _calls(name, "open_run"):
        keywords = {keyword.arg for keyword in call.keywords}
        assert {"inputs", "recipe"} <= keywords or None in keywords, ast.unparse(call)
    for call in _calls(name, "inputs_of"):
        assert {keyword.arg for keyword in call.keywords} >= by_hand, ast.unparse(call)
