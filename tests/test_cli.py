"""Command lines from signatures: flags, help, checks, configuration files, task objects."""

import contextlib
import dataclasses
import json
from typing import Annotated, Any, Literal

import pytest
from helpers.run_python import assert_imports_none
from helpers.wrong_values import wrong_inputs

from kbert.aliases import PathLike
from kbert.cli import Command, make_parser, parse_call, run_command
from kbert.errors import UserError, internal_errors
from kbert.options import NOT_RECORDED, Count, Machine, NonzeroFraction, Options, Positive, read_config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Options):
    """Which tokens are masked.

    Args:
        rate: the fraction of tokens.
        whole_word: whether whole words are masked.
    """

    rate: NonzeroFraction = 0.15
    whole_word: bool = False


@dataclasses.dataclass(frozen=True)
class Reviews(Options):
    """Labels of texts.

    Args:
        text, label: names of columns.
        metrics: names of metrics.
    """

    text: str = "text"
    label: str = "label"
    metrics: tuple[str, ...] | None = None

    def to_dict(self):
        return {"task": "reviews", **dataclasses.asdict(self)}


def train(
    corpus: list[str],
    task=None,
    *,
    steps: Count | None = None,
    learning_rate: Positive = 1e-4,
    keep: Literal["best", "last"] = "best",
    evaluate_every: Literal["epoch"] | Count | None = "epoch",
    packed: bool | None = None,
    phases: list[tuple[Count, float]] | None = None,
    class_weight: dict[str, float] | Literal["balanced"] | None = None,
    layers: list[int] = (-1,),
    name: str | None = None,
    columns: str | tuple[str, ...] = "text",
    masking: Masking = Masking(rate=0.2),
    machine: Machine = Machine(),
    callbacks: Any = (),
    output: Annotated[PathLike | None, NOT_RECORDED] = None,
):
    """Trains on a corpus.

    More about it.

    Args:
        corpus: paths of texts.
        steps: weight updates, 100 % of them.
        layers: hidden states.
    """
    return {"corpus": corpus, "steps": steps, "machine": machine}


class MemoryShort(UserError, ValueError):
    pass


TRAIN = Command(verb=train, positional=("corpus",), as_json=lambda result: {"steps": result["steps"]})
FINETUNE = Command(verb=train, positional=("corpus",), tasks=lambda: {"reviews": Reviews})


def parse(*words, command=TRAIN):
    return parse_call("kbert train", command, words)[0]


def refused(capsys, *words, command=TRAIN):
    """What a wrong command line is told: one line and status 2, without a call of the verb."""
    with pytest.raises(SystemExit) as error:
        run_command(command, words, "kbert train")
    told = capsys.readouterr()
    assert (error.value.code, told.out) == (2, "") and told.err.startswith("error: ") and told.err.count("\n") == 1
    return told.err.removeprefix("error: ").removesuffix("\n")


def test_flags_are_parameters():
    values = parse(
        *("a.txt", "b.txt", "--steps", "100", "--learning-rate", ".5", "--keep", "last", "--evaluate-every", "50"),
        *("--no-packed", "--phases", "128:.9", "[512, 0.1]", "--class-weight", '{"a": 2}', "--layers", "-1", "0"),
        *("--name", "12", "--whole-word", "--xla", "on", "--output", "runs/1"),
    )
    assert values == {
        "corpus": ["a.txt", "b.txt"],
        "steps": 100,
        "learning_rate": 0.5,
        "keep": "last",
        "evaluate_every": 50,
        "packed": False,
        "phases": [(128, 0.9), (512, 0.1)],
        "class_weight": {"a": 2},
        "layers": [-1, 0],
        "name": "12",
        "masking": Masking(rate=0.2, whole_word=True),
        "machine": Machine(xla="on"),
        "output": "runs/1",
    }
    assert parse("a", "--evaluate-every", "none", "--class-weight", "balanced") == {
        "corpus": ["a"],
        "evaluate_every": None,
        "class_weight": "balanced",
    }


def test_one_word_of_a_list_that_may_be_a_string_is_the_string():
    assert parse("a", "--columns", "subject")["columns"] == "subject"
    assert parse("a", "--columns", "subject", "body")["columns"] == ("subject", "body")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "--steps", "0"], "kbert train: `steps` must be a positive integer or None. Received: 0"),
        (["a", "--steps", "many"], "kbert train: `steps` must be a positive integer or None. Received: 'many'"),
        (["a", "--step", "3"], "unknown flag --step. Did you mean `--steps`?"),
        (["a", "--qqqq"], "unknown flag --qqqq. See kbert train --help"),
        (["a", "--keep", "worst"], "kbert train: `keep` must be one of ('best', 'last'). Received: 'worst'"),
        (["a", "--rate", "2"], "kbert train: `rate` must be a number in (0, 1]. Received: 2"),
        (["a", "--layers", "1", "x"], "kbert train: `layers` must be a list, each item an integer. Received: [1, 'x']"),
        (["a", "--steps"], "argument --steps: expected one argument"),
        (["a", "--phases", "128"], "argument --phases: expected numbers, such as 128:0.9. Received: 128"),
        (["a", "--phases", "128:x"], "argument --phases: expected numbers, such as 128:0.9. Received: 128:x"),
        (["a", "--packed=3"], "argument --packed/--no-packed: ignored explicit argument '3'"),
        (["a", "--config"], "argument --config: expected one argument"),
        ([], "CORPUS is required. See kbert train --help"),
    ],
)
def test_a_wrong_flag_or_value_is_one_line(words, message, capsys):
    assert refused(capsys, *words) == message


def test_the_help_is_the_docstring(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    for text in (
        "Trains on a corpus.\n\nMore about it.",
        "--steps N",
        "weight updates, 100 % of them.",
        "--keep best|last",
        "--evaluate-every epoch|N",
        "--packed, --no-packed",
        "--rate X",
        "the fraction of tokens. (default: 0.2)",
        "--output PATH",
    ):
        assert text in shown
    assert "Args:" not in shown and "callbacks" not in shown and "--task" not in shown


def test_a_configuration_file_has_the_values_of_flags(tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text("corpus: [a]\nsteps: 5\nxla: auto\nlogical_cpus: 2\nwhole_word: true\n")
    values = parse("--config", str(path), "--xla", "off")
    rates = {"learning_rate: 1e-4": 1e-4, '{"learning_rate": 5e-05}': 5e-5, "learning_rate: 1.5E+2": 150.0}
    for text, rate in rates.items():
        (tmp_path / "other.yaml").write_text(text)
        assert parse("a", "--config", str(tmp_path / "other.yaml"))["learning_rate"] == rate
    assert values["machine"] == Machine(xla="off", logical_cpus=2)
    assert values["masking"] == Masking(rate=0.2, whole_word=True)
    assert (values["corpus"], values["steps"]) == (["a"], 5)
    with pytest.raises(SystemExit):
        parse("--config", str(path), "--print-config", "--learning-rate", "0.5")
    path.write_text(capsys.readouterr().out)
    again = parse("--config", str(path))
    assert (again["learning_rate"], again["machine"].logical_cpus, again["keep"]) == (0.5, 2, "best")


def test_presets_are_configuration_files_and_a_later_one_overrides_an_earlier_one(tmp_path, capsys):
    (tmp_path / "small.yaml").write_text("steps: 5\nrate: 0.5\n")
    (tmp_path / "run.json").write_text('{"steps": 7}')
    command = dataclasses.replace(TRAIN, presets=tmp_path)
    configs = ["--config", "small", "--config", str(tmp_path / "run.json")]
    values = parse("a", *configs, "--learning-rate", "0.1", command=command)
    assert values == {"corpus": ["a"], "steps": 7, "masking": Masking(rate=0.5), "learning_rate": 0.1}
    message = "--config smalll: no such file. Did you mean `small`?"
    assert message in refused(capsys, "a", "--config", "smalll", command=command)
    with pytest.raises(SystemExit, match="0"):
        run_command(command, ["--help"], "kbert train")
    assert "an earlier one; or small" in " ".join(capsys.readouterr().out.split())


def test_some_fields_of_a_task_are_a_configuration(tmp_path, capsys):
    command = dataclasses.replace(FINETUNE, partial_task=True)
    with pytest.raises(SystemExit):
        parse("reviews", "a", "--text", "review", "--print-config", command=command)
    path = tmp_path / "run.yaml"
    path.write_text(capsys.readouterr().out)
    assert parse("--config", str(path), command=command)["task"] == {"task": "reviews", "text": "review"}


def test_of_some_fields_those_of_the_model_are_no_flags(capsys):
    @dataclasses.dataclass(frozen=True)
    class Stored(Reviews):
        name: str | None = dataclasses.field(default=None, metadata={"of_model": True})
        labels: tuple[str, ...] = dataclasses.field(default=(), metadata={"of_model": True})

    command = dataclasses.replace(FINETUNE, tasks=lambda: {"stored": Stored}, partial_task=True)
    values = parse("stored", "a", "--text", "review", "--name", "b", command=command)
    assert values == {"corpus": ["a"], "task": {"task": "stored", "text": "review"}, "name": "b"}  # the verb's own flag
    assert refused(capsys, "stored", "a", "--labels", "good", command=command).startswith("unknown flag --labels.")


def test_a_configuration_has_a_task_that_is_a_word(tmp_path, capsys):
    def export(source: str, task: str | None = None):
        """Exports a model."""

    path = tmp_path / "run.yaml"
    for words, task in ((), None), (("--task", "encoder"), "encoder"):
        with pytest.raises(SystemExit):
            parse("--source", "a", *words, "--print-config", command=Command(verb=export))
        path.write_text(capsys.readouterr().out)
        assert parse("--config", str(path), command=Command(verb=export)) == {"source": "a", "task": task}


def test_a_wrong_configuration_is_an_error(tmp_path):
    path = tmp_path / "run.yaml"
    wrong_inputs(
        lambda text: path.write_text(text) and parse("a", "--config", str(path)),
        ("stepz: 3", "run.yaml: unknown option `stepz`. Did you mean `steps`"),
        ("steps: 0", "kbert train: `steps` must be a positive integer or None. Received: 0"),
        ("rate: 2", r"kbert train: `rate` must be a number in \(0, 1\]. Received: 2"),
        ("callbacks: []", "run.yaml: unknown option `callbacks`"),
        ("masking: {rate: 0.5}", "run.yaml: unknown option `masking`"),
        ("- 3", "expected names with values"),
        ("a: [", "expected YAML or JSON"),
    )
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "none.yaml")


def test_a_task_comes_first_and_its_fields_are_flags(tmp_path, capsys):
    values = parse("reviews", "a", "--text", "review", "--metrics", "f1", "accuracy", command=FINETUNE)
    assert values == {"corpus": ["a"], "task": Reviews("review", metrics=("f1", "accuracy"))}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"corpus": ["a"], "task": values["task"].to_dict(), "steps": 3}))
    again = parse("--config", str(path), "--label", "stars", command=FINETUNE)
    assert again == {"corpus": ["a"], "task": Reviews("review", "stars", ("f1", "accuracy")), "steps": 3}
    path.write_text('{"corpus": ["a"], "task": null}')
    assert parse("reviews", "--config", str(path), command=FINETUNE)["task"] == Reviews()
    path.write_text('{"task": "reviews"}')
    with pytest.raises(
        ValueError, match="expected `task` with its fields, as settings.json has it. Received: 'reviews'"
    ):
        parse("reviews", "a", "--config", str(path), command=FINETUNE)
    path.write_text('{"task": {"task": ["reviews"]}}')
    assert refused(capsys, "--config", str(path), command=FINETUNE).startswith("A task comes first.")
    told = refused(capsys, "reviews", "a", "--texd", "x", command=FINETUNE)
    assert told == "unknown flag --texd. Did you mean `--text`?"
    with pytest.raises(SystemExit, match="0"):
        parse("--help", command=FINETUNE)
    assert "TASK is one of reviews." in capsys.readouterr().out


def test_a_task_that_is_missing_or_unknown_is_one_line(capsys):
    def tag(task, *, source: str | None = None):
        """Tags."""

    command = Command(verb=tag, tasks=lambda: {"reviews": Reviews, "spans": Reviews})
    for words, message in (
        ([], "A task comes first. Known: reviews, spans"),
        (["review"], "A task comes first. Did you mean `reviews`?"),
        (["qqqq"], "A task comes first. Known: reviews, spans"),
        (["spans", "b"], "unknown argument b. See kbert train spans --help"),
    ):
        assert refused(capsys, *words, command=command) == message


def test_run_command_prints_the_report_and_json(capsys):
    shown = dataclasses.replace(TRAIN, report=lambda result: print("steps:", result["steps"]))
    run_command(shown, ["a", "--steps", "7", "--json"], "train")
    assert capsys.readouterr().out == 'steps: 7\n{"steps": 7}\n'


def test_errors_that_a_user_can_fix_are_one_line_and_bugs_have_a_traceback():
    def train(steps: Count = 3):
        """Trains."""
        with internal_errors() if steps == 4 else contextlib.nullcontext():
            raise {3: ValueError, 4: ValueError, 5: KeyError, 6: OSError, 7: MemoryShort}[steps](f"{steps} steps")

    for steps, error in (("3", SystemExit), ("4", ValueError), ("5", KeyError), ("6", SystemExit), ("7", SystemExit)):
        with pytest.raises(error, match=f"^(error: |'?){steps} steps"):  # a string as status: it is printed, status 1
            run_command(Command(verb=train), ["--steps", steps], "train")


def test_the_parser_has_every_option():
    parser = make_parser("kbert train", TRAIN, TRAIN.flags())
    assert {"--logical-cpus", "--whole-word", "--config"} <= parser._option_string_actions.keys()


def test_the_command_line_imports_nothing_heavy():
    assert_imports_none("import kbert.cli", "tensorflow", "keras", "numpy", "yaml")
