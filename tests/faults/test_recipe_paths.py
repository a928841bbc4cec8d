"""Every path that a command takes: missing, of the wrong kind or blocked, it is one line that names it."""

import json

import pytest
from helpers.run_recipe import RECIPES, as_flags, run_kbert, run_recipe
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import tagged_sentences, write_conll

import kbert
from kbert.commands import COMMANDS as KBERT
from kbert.commands.finetuning import task_classes
from kbert.corpus.write_records import write_records

SHORT = ("--steps", 1, "--batch-size", 4, "--sequence-length", 16)
FIT = as_flags(source="<init>", output="<new>", epochs=1, batch_size=4, sequence_length=16)
COMMANDS = {  # sound ones; names in angle brackets are paths of `home`, those of outputs begin with "new"
    "answer_questions": (*as_flags(train="<squad.json>", dev="<squad.json>", max_query_length=4, doc_stride=4), *FIT),
    "audit": ("<nothing>",),
    "batches": ("<records>", "--output", "<new>", *SHORT),
    "classify": ("--table", "<train.csv>", *FIT),
    "convert": ("--source", "<init>", "--output", "<new>"),
    "distill": (
        *as_flags(teacher="<init>", students="<classifier>", glue="<glue>", output="<new>", tasks="SST-2:8"),
        *as_flags(seeds=0, epochs=1, sequence_length=16),
    ),
    "embed": ("--source", "<init>", "--input", "<texts.txt>", "--output", "<new>"),
    "embeddings": (
        *as_flags(corpus="<corpus.txt>", source="<init>", output="<new>", sts_b="<glue>"),
        *as_flags(examples=20, batch_size=4, sequence_length=16),
    ),
    "evaluate": ("<classifier>", "--examples", "<dev.csv>", "--output", "<new>"),
    "evaluate-pretraining": ("<records>", "--source", "<init>", "--output", "<new.json>"),
    "export": ("--source", "<classifier>", "--output", "<new>"),
    "features": ("--source", "<init>", "--input", "<texts.txt>", "--layers", -1, "--output", "<new.jsonl>"),
    "features_bilstm": (*as_flags(train="<tags.conll>", dev="<tags.conll>", units=4), *FIT),
    "fill-mask": ("a [MASK]", "--source", "<init>"),
    "find_names": ("<cased.txt>", "--output", "<new.txt>", "--min-count", 1),
    "find_entities": (*as_flags(train="<tags.conll>", dev="<tags.conll>"), *FIT),
    "finetune classification": (
        *as_flags(train="<train.csv>", dev="<train.csv>", source="<init>", output="<new>"),
        *SHORT,
    ),
    "finetune glue": (*as_flags(name="SST-2", train="<glue>", dev="<glue>", source="<init>", output="<new>"), *SHORT),
    "finetune multiple_choice": (
        *as_flags(train="<choices.csv>", dev="<choices.csv>", choices=["a", "b"], source="<init>", output="<new>"),
        *SHORT,
    ),
    "finetune regression": (*as_flags(train="<dev.csv>", dev="<dev.csv>", source="<init>", output="<new>"), *SHORT),
    "finetune similarity": (
        *as_flags(train="<choices.csv>", dev="<choices.csv>", text="prompt", text_pair="a", source="<init>"),
        *("--output", "<new>", *SHORT),
    ),
    "finetune span": (
        *as_flags(train="<squad.json>", dev="<squad.json>", source="<init>", output="<new>"),
        *SHORT,
        *as_flags(max_query_length=4, doc_stride=4),
    ),
    "finetune tagging": (
        *as_flags(train="<tags.conll>", dev="<tags.conll>", source="<init>", output="<new>"),
        *SHORT,
    ),
    "glue": (
        *as_flags(tasks="SST-2", directory="<glue>", source="<init>", output="<new>", steps=1, batch_sizes=4),
        *as_flags(sequence_length=16),
    ),
    "glue_submission": ("--directory", "<glue>", "--constant", "SST-2", "--output", "<new>"),
    "gpu_rows": ("<records>", "--output", "<new>"),
    "inspect": ("--source", "<init>", "--output", "<new>", "--data", "<tags.conll>", "--dev", "<tags.conll>"),
    "playground": ("<init>",),
    "predict": ("--source", "<classifier>", "--input", "<texts.txt>", "--output", "<new.jsonl>"),
    "pretrain": ("<corpus.txt>", "--vocabulary", "<vocab.txt>", "--output", "<new>", *SHORT, "--held-out", 0.2),
    "pretrain_with_fit": (
        *as_flags(texts="<corpus.txt>", model="<init>", output="<new>", epochs=1, sequence_length=16),
    ),
    "query": ("--input", "<rows.jsonl>", "--model", "reviews"),
    "quickstart": ("--output", "<new>", "--steps", 1),
    "records": ("<corpus.txt>", "--vocabulary", "<vocab.txt>", "--output", "<new>", "--held-out", 0.2),
    "triviaqa": ("--questions", "<questions.json>", "--evidence", "<evidence>", "--output", "<new.json>"),
    "two_tasks": ("--table", "<stars.csv>", *FIT),
    "vocabulary": ("<corpus.txt>", "--size", 50, "--output", "<new.txt>"),
}
MORE = {  # other flags that take a path
    "evaluate-pretraining": [("<corpus.txt>", "--source", "<init>", "--held-out", 0.2)],
    "pretrain": [("<records>", "--init", "<init>", "--output", "<new>", *SHORT)],
    "embed": [("--source", "<init>", "--sts-b", "<glue>", "--output", "<new>")],
    "finetune classification": [
        (
            *as_flags(train="<train.csv>", source="<init>", output="<new>", evaluate_every="null"),
            *as_flags(teacher="<classifier>", unlabelled="<texts.txt>"),
            *SHORT,
        )
    ],
    "inspect": [
        ("--source", "<init>", "--output", "<new>", "--records", "<records>"),
        ("--source", "<init>", "--output", "<new>", "--compare", "<classifier>"),
    ],
}
NO_PATHS = {"pretrain_on_gpu", "predict_with_beam"}  # on JAX, and a Beam pipeline: each has a test of its own
CORPUS = "kbert.pretraining.run.corpus_data"
BEFORE_AN_OUTPUT = {
    "kbert.training.loop.train": None,  # an output is looked at before
    f"{CORPUS}.CorpusData.choose_packing": lambda *arguments: False,
    f"{CORPUS}.CorpusData.evaluations": lambda *arguments: None,
}
CASES = [
    (recipe, command, place)
    for recipe, first in COMMANDS.items()
    for command in (first, *MORE.get(recipe, ()))
    for place, part in enumerate(command)
    if str(part).startswith("<")
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_lines(path / "corpus.txt", make_documents(30))
    (path / "cased.txt").write_text("He left New York .\n")
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    (path / "texts.txt").write_text("the good film .\n")
    (path / "rows.jsonl").write_text('{"text": "a"}\n')
    write_tiny_directory(path / "init")
    write_tiny_directory(path / "classifier", "classification", num_labels=2)
    write_table(path / "train.csv", sentences(20))
    write_table(path / "dev.csv", [(text, int(label == "good")) for text, label in sentences(20)])
    write_table(
        path / "choices.csv",
        [("the film", "good", "bad", n % 2) for n in range(20)],
        header=("prompt", "a", "b", "label"),
    )
    rows = [(text, label, 5 if label == "good" else 1) for text, label in sentences(20)]
    write_table(path / "stars.csv", rows, header=("text", "label", "stars"))
    write_conll(path / "tags.conll", tagged_sentences(20))
    asked = [{"id": "1", "question": "the", "answers": [{"text": "film", "answer_start": 4}]}]
    squad = {"version": "1.1", "data": [{"paragraphs": [{"context": "the film .", "qas": asked}]}]}
    (path / "squad.json").write_text(json.dumps(squad))
    (path / "squad").mkdir()
    for name in ("train", "dev"):
        (path / "squad" / f"{name}-v2.0.json").write_text(json.dumps(squad))
    question = {"Question": "the", "QuestionId": "q", "Answer": {"Value": "film"}, "SearchResults": [{"Filename": "a"}]}
    (path / "questions.json").write_text(json.dumps({"Data": [question]}))
    (path / "evidence" / "web").mkdir(parents=True)
    (path / "evidence" / "web" / "a").write_text("the film .")
    write_toy_glue(path / "glue")
    tokenizer = kbert.BertTokenizer(path / "init" / "vocab.txt")
    write_records(make_documents(30), tokenizer, path / "records", held_out=0.2)
    short = (*SHORT, "--evaluation-batches", 1, "--no-packed")
    run_kbert("batches", path / "records", "--output", path / "batches", *short)
    return path


def fail(home, recipe, command, capsys):
    """What the recipe says as it ends with an error; asserts that it says one thing and leaves the files alone."""
    arguments = [str(home / part[1:-1]) if str(part).startswith("<") else str(part) for part in command]
    before = sorted(home.rglob("*"))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        _run(recipe, *arguments)
    assert sorted(home.rglob("*")) == before
    if isinstance(ended.value.code, str):
        assert "\n" not in ended.value.code and ended.value.code.startswith("error: "), ended.value.code
        return ended.value.code
    assert ended.value.code == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    return error


def _run(name, *arguments):
    word, *more = name.split()
    if word in KBERT:
        run_kbert(word, *more, *arguments)
    else:
        run_recipe(name, *arguments)


@pytest.mark.parametrize("recipe, command, place", CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_path_is_one_line_that_names_it(home, recipe, command, place, capsys, monkeypatch):
    name = command[place][1:-1]
    if name.startswith("new"):
        wrong = ["texts.txt/" + name, "texts.txt" if "." not in name else "squad"]
    else:
        wrong = ["missing/" + name, "squad" if (home / name).is_file() else "rows.jsonl"]
    if name == "records":  # another file may be a text
        del wrong[1:]
    for other in wrong:
        check(home, recipe, command, place, other, capsys, monkeypatch)


@pytest.mark.slow  # the parent is a file: above
@pytest.mark.parametrize(
    "recipe, command, place",
    [case for case in CASES if case[1][case[2]].startswith("<new")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_output_deep_below_a_file_is_one_line_that_names_it(home, recipe, command, place, capsys, monkeypatch):
    check(home, recipe, command, place, f"texts.txt/deep/{command[place][1:-1]}", capsys, monkeypatch)


def check(home, recipe, command, place, other, capsys, monkeypatch):
    """The command with another path in that place."""
    monkeypatch.chdir(home)
    if command[place].startswith("<new"):
        for dear, instead in BEFORE_AN_OUTPUT.items():
            monkeypatch.setattr(dear, instead)
    said = fail(home, recipe, [*command[:place], f"<{other}>", *command[place + 1 :]], capsys)
    assert other.split("/")[0] in said, said


def test_every_command_and_recipe_is_tried():
    words = {name.split()[0] for name in COMMANDS} | NO_PATHS
    assert words == {path.stem for path in RECIPES.glob("*.py")} | KBERT.keys()
    assert {name.split()[1] for name in COMMANDS if name.startswith("finetune ")} == task_classes().keys()
