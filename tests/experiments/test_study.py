"""Tables by their command, at toy scale: what rows share is made once, and a killed command goes on."""

import functools
import importlib
import json

import pytest
from experiments import cells as cells_module
from experiments import pretrained_rows
from experiments.downstream import Downstream, chosen_by_column, downstream_tasks
from experiments.paper_tables import Row, paper_table
from experiments.report import accuracy_without_context
from experiments.study import Study, make_study
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import as_flags, import_recipe, read_json, run_recipe
from helpers.toy_study import VOCABULARY, study_arguments, write_study_home

import kbert
from kbert.cli import parse_call
from kbert.corpus.records import Records
from kbert.finetuning.features.train import FeatureTraining
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.training import dry_run

trains = (
    pytest.mark.slow
)  # tables of scores that are given: test_run_table.py; a resumed command: test_compare_finetuning.py
FEATURES = FeatureTraining(steps=1, batch_size=4, units=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_study_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module", autouse=True)
def _packing_is_decided_once():
    """For all studies of the same arguments, which decide the same."""
    decided, decide = {}, pretrained_rows.decide_packing

    def remember(source, arguments):
        key = repr((source, sorted(arguments.items())))
        if key not in decided:
            decided[key] = decide(source, arguments)
        return decided[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained_rows, "decide_packing", remember)
        yield


@pytest.fixture(scope="module")
def made(home):
    """Table 5, interrupted within the fine-tunings and given again; counts what was run."""
    counts = {"pretrain": 0, "finetune": 0}

    def counted(name, function, limit=None):
        @functools.wraps(function)  # whose defaults are read
        def run(*args, **options):
            counts[name] += 1
            if counts[name] == limit:
                raise KeyboardInterrupt
            return function(*args, **options)

        return run

    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained_rows, "pretrain", counted("pretrain", pretrained_rows.pretrain))
        patch.setattr(cells_module, "finetune", counted("finetune", cells_module.finetune, limit=2))
        with pytest.raises(KeyboardInterrupt):
            run_recipe("ablations", *study_arguments(home, home / "runs", "table5"))
        first = dict(counts)
        run_recipe("ablations", *study_arguments(home, home / "runs", "table5"))
        run_recipe("ablations", *study_arguments(home, home / "runs", "table5"))  # everything is there
    return first, counts


@trains
def test_what_rows_share_is_made_once(home, made):
    assert made[0] == {"pretrain": 2, "finetune": 2}  # No NSP's was interrupted
    assert made[1] == {"pretrain": 3, "finetune": 4 + 1}  # + BiLSTM has the pre-training of LTR
    folders = sorted(path.name for path in (home / "runs" / "pretraining").iterdir())
    assert [name.rpartition("-")[0] for name in folders] == [
        "base",
        "left_to_right-true-next_sentence-false",
        "next_sentence-false",
    ]
    files = sorted((home / "runs" / "finetuning").iterdir())
    assert len(files) == 5 and all(path.suffix == ".json" and path.stat().st_size < 2000 for path in files)


@trains
def test_the_table(home, made):
    result = read_json(home / "runs" / "results" / "table5.json")
    rows = {row["name"]: row for row in result["rows"]}
    assert list(rows) == ["BERT", "No NSP", "LTR & No NSP", "+ BiLSTM", "random weights", "most frequent answer"]
    constant, random = rows.pop("most frequent answer"), rows.pop("random weights")
    cell = read_json(next((home / "runs" / "finetuning").iterdir()))
    assert constant["scores"]["SST-2"]["values"] == [100 * cell["constant_answer"]["accuracy"]]
    assert not constant["pretrained"] and not constant["paper"]
    assert not random["pretrained"] and 0 <= random["scores"]["SST-2"]["mean"] <= 100
    for row in rows.values():
        assert len(row["scores"]["SST-2"]["values"]) == 1 and row["pretrained"]["steps"] == 5
        assert 0 <= row["scores"]["SST-2"]["mean"] <= 100
    assert "nsp_accuracy" in rows["BERT"]["pretrained"] and "nsp_accuracy" not in rows["No NSP"]["pretrained"]
    assert len(result["sentences"]) == 4 and str(home) not in json.dumps(result)


@trains
@pytest.mark.usefixtures("made", "eagerly")
def test_a_dry_run_says_what_is_left(home, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "seconds_per_step", lambda *arguments: 1.0)  # measured in pretraining/run
    monkeypatch.setattr(CorpusData, "evaluations", lambda data: {})
    recipe = study_arguments(home, home / "runs", "table5", "--dry-run")
    run_recipe("ablations", *recipe, "--learning-rates", "1e-3", "1e-4")  # of which the first was taken before
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "0 of 3 pre-trainings are left to do",
        "5 of 10 fine-tunings and taggers on features are left to do",
    ]
    assert lines[2:] == [f"  table5, {row.name}: SST-2 1" for row in paper_table("table5").rows]
    run_recipe("ablations", *study_arguments(home, tmp_path / "new", "table5", "--dry-run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["3 of 3 pre-trainings are left to do", "  BERT (base)", "  No NSP (next_sentence-false)"]
    assert lines[4] == "5 of 5 fine-tunings and taggers on features are left to do"
    assert lines[10] == "The first pre-training, BERT:" and lines[-1].startswith("time: about")
    assert not (tmp_path / "new").exists()


def test_a_dry_run_says_which_masks_never_come_again(home, monkeypatch):
    tokens = sum(shard["tokens"] for shard in Records(home / "records").training)
    run_table = importlib.import_module("experiments.run_table")  # the package's name is the function
    monkeypatch.setattr(run_table, "describe_estimate", lambda estimate: "the estimate")
    toy = study(home, pretraining={"steps": 6, "packed": False})
    toy.pretrainings.estimate = lambda row: {"tokens": 5 * tokens}
    lines = run_table.describe_study_plan(toy, [paper_table("masking")]).splitlines()
    assert lines[-2:] == [
        "the estimate",
        "10 different masks: with less than 5.0 epochs, dupe_factor=10 changes nothing; expected more than 10",
    ]


@trains
@pytest.mark.usefixtures("made")
def test_taggers_on_features_are_counted(home):
    toy, row = study(home, seeds=[7]), paper_table("table8").rows[0]
    assert list(toy.trainings(row, toy.tasks[1], "last").values()) == [False]


@trains
def test_the_left_to_right_model_and_its_bilstm(home, made):
    [path] = (home / "runs" / "pretraining").glob("left_to_right*")
    model = kbert.load_pretrained(path)
    assert (model.task, model.config.causal) == ("masked_lm", True)
    assert (model.config.pooled_token, model.config.position_embedding) == ("last", "learned")
    metrics = read_json(path / "metrics.json")
    assert "nsp_accuracy" not in metrics and metrics["data"]["mask_token_rate"] is None
    options = [read_json(cell)["options"] for cell in (home / "runs" / "finetuning").glob("*left_to_right*.json")]
    assert sorted(one.get("bilstm", False) for one in options) == [False, True]


def _study_of(arguments):
    recipe = import_recipe("ablations")
    values, _ = parse_call("ablations", recipe.COMMAND, [str(part) for part in arguments])
    return make_study(recipe.ablations.arguments(**values), "ablations.py")


def test_restarts_are_seeds_and_pre_trainings_have_a_rate_of_their_own(home, tmp_path):
    given = study_arguments(home, tmp_path, "table5", *as_flags(seeds=[4, 5, 6], pretraining_learning_rate=3e-4))
    toy = _study_of(given)
    assert toy.seeds == [4, 5, 6] and toy.pretrainings.arguments["learning_rate"] == 3e-4 and toy.rates == [1e-3]


def test_limits_that_a_task_names_are_its_own(home, tmp_path):
    given = study_arguments(home, tmp_path, "table5", "--tasks", "SST-2:12", "MRPC", "STS-B:9:3")
    toy = _study_of(given)
    found = {name: (one["train"], one["dev"]) for name, one in toy.settings()["examples"].items()}
    assert found == {"SST-2": (12, 20), "MRPC": (8, 20), "STS-B": (9, 3)}


def test_the_best_epoch_is_the_best_by_the_column_s_metric(home, monkeypatch):
    [mrpc, sst] = downstream_tasks(glue_directory=home / "glue", glue_tasks=["MRPC", "SST-2"])
    chosen = chosen_by_column(mrpc).task
    assert mrpc.metric == "accuracy" and mrpc.task.metrics == ("f1", "accuracy")
    assert chosen.to_dict() == mrpc.task.to_dict() | {"metrics": ["accuracy", "f1"]}
    assert chosen_by_column(sst) is sst
    toy, row, seen = study(home), paper_table("table5").rows[0], []
    monkeypatch.setattr(toy.pretrainings, "source_of", lambda row: "a model")
    monkeypatch.setattr(
        toy._cells, "score", lambda init, task, options: seen.append(task) or {"file": "", "percent": 1}
    )
    toy.scores(row, mrpc)
    assert [task.task.metrics[0] for task in seen] == ["accuracy"]


def study(home, source="records", **options):
    tasks = downstream_tasks(
        glue_directory=home / "glue",
        glue_tasks=["SST-2"],
        ner=[home / "ner" / f"eng.{n}" for n in ("train", "testa")],
        train_examples=8,
    )
    pretraining = {"size": "tiny", "steps": 5, "seed": 0, "batch_size": 64, "sequence_length": 16}
    pretraining |= {"precision": "float32", "packed": False}  # as TOY, and what its runs decide
    finetuning = {"epochs": 1.0, "batch_size": 8, "sequence_length": 16, "dropout": None}
    shared = {"pretraining": pretraining, "finetuning": finetuning, "feature_training": FEATURES}
    return Study(home / source, home / "runs", tasks, **shared | options)


@trains
@pytest.mark.usefixtures("made", "eagerly")
def test_points_of_figure_5_and_features_are_of_the_same_run(home, monkeypatch):
    monkeypatch.setattr(pretrained_rows, "pretrain", None)  # table 5 has made it
    toy, rows = study(home, seeds=[0, 1]), {row.name: row for row in paper_table("figure5").rows}
    point = rows["MLM after 40 % of the steps"]
    assert toy.pretrainings.source_of(point).endswith("@2")
    assert toy.pretrainings.describe(point)["steps"] == 2
    scores = toy.scores(point, toy.tasks[0])[5e-5]  # of both seeds
    assert len(scores) == 2 and all(0 <= score <= 100 for score in scores)
    toy, row = study(home), paper_table("table8").rows[0]
    for _ in range(2):  # the second time from metrics.json
        assert list(toy.scores(row, toy.tasks[1], "concat-last-four")) == [FEATURES.learning_rate]
    with pytest.raises(ValueError, match="features are for tagging.* Received: SST-2"):
        toy.scores(row, toy.tasks[0], "last")


def test_what_decides_a_run_is_its_text_not_its_path(home, tmp_path):
    row = paper_table("table5").rows[1]
    given = {"vocabulary": home / "vocab.txt", "size": "tiny", "steps": 5, "sequence_length": 16}
    before, again = (study(home, "corpus.txt", pretraining=given).pretrainings.identity(row) for _ in range(2))
    assert isinstance(before["pretraining"]["packed"], bool) and before == again
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCABULARY, "more"]) + "\n")
    changed = given | {"vocabulary": tmp_path / "vocab.txt", "packed": False}
    other = study(home, "corpus.txt", pretraining=changed).pretrainings.identity(row)
    assert other["content"]["corpus"] == before["content"]["corpus"]
    assert other["content"]["vocabulary"] != before["content"]["vocabulary"]


def test_a_run_is_the_same_however_its_paths_are_written(home, monkeypatch):
    (home / "names.txt").write_text("good film\n")
    absolute = Row(name="names", pretraining={"names": str(home / "names.txt")})
    folder = study(home).pretrainings.folder(absolute)
    monkeypatch.chdir(home)
    toy = study(home)
    options = {"pretraining": toy.pretrainings.arguments | {"held_out": 0.01}}  # the default
    relative = Study("records", home / "runs", toy.tasks, **options).pretrainings
    assert relative.folder(Row(name="names", pretraining={"names": "names.txt"})) == folder
    (home / "names.txt").write_text("bad film\n")
    assert study(home).pretrainings.folder(absolute) != folder


def test_all_rows_are_packed_or_none(home, monkeypatch):
    decided = []
    monkeypatch.setattr(pretrained_rows, "decide_packing", lambda *arguments: decided.append(arguments) or True)
    toy = study(home, pretraining={"steps": 5})
    assert (
        all(toy.pretrainings.identity(row)["pretraining"]["packed"] for row in paper_table("masking").rows)
        and len(decided) == 1
    )
    assert toy.settings()["pretraining"]["packed"] is True
    assert study(home, pretraining={"steps": 5, "packed": False}).pretrainings.packed is False and len(decided) == 1


def test_rates_and_seeds_are_the_study_s_own(home):
    with pytest.raises(ValueError, match=r"`finetuning`. Received: \['learning_rate', 'seed'\]"):
        study(home, finetuning={"seed": 1, "learning_rate": 1e-4, "epochs": 1.0})


def test_a_length_that_is_given_stands_for_every_task(home):
    squad = Downstream(name="SQuAD", task=None, train=[], dev=[], metric="f1", options={"sequence_length": 384})
    assert study(home)._finetuning(squad)["sequence_length"] == 16
    assert study(home, finetuning={"sequence_length": None})._finetuning(squad) == {"sequence_length": 384}
    assert study(home, finetuning={})._finetuning(study(home).tasks[0])["sequence_length"] == 128


@trains
@pytest.mark.usefixtures("made", "eagerly")
def test_minutes_are_those_of_the_steps(home):
    toy, [row, *_] = study(home), paper_table("table5").rows
    found, path = toy.pretrainings.describe(row), toy.pretrainings.path(row)
    lines = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    assert found["minutes"] == pytest.approx(sum(line["seconds"] for line in lines) / 60) and found["minutes"] > 0
    assert found["minutes"] == read_json(path / "metrics.json")["minutes"] and found["epochs"] > 0


@trains
@pytest.mark.usefixtures("made", "eagerly")
def test_a_row_has_the_accuracy_that_needs_no_context(home):
    toy, rows = study(home), {row.name: row for row in paper_table("table5").rows}
    for name, rates in (("BERT", (0.8, 0.1, 0.1)), ("LTR & No NSP", (1.0, 0.0, 0.0))):
        found = toy.pretrainings.describe(rows[name])
        unigram = read_json(toy.pretrainings.path(rows[name]) / "metrics.json")["unigram"]["accuracy"]
        assert found["accuracy_without_context"] == pytest.approx(accuracy_without_context(unigram, *rates))
        assert found.get("left_to_right", False) == (name != "BERT")


def test_what_cannot_work_is_said_before_anything_runs(home, tmp_path):
    by_the_clock = study(home, pretraining={"hours": 1.0})
    with pytest.raises(ValueError, match="is a fraction of a run of `steps`. Received: a run of hours"):
        by_the_clock.check(paper_table("figure5"))
    by_the_clock.check(paper_table("table5"))
    with pytest.raises(ValueError, match="at least 5 steps, one a point. Received: 4"):
        study(home, pretraining={"steps": 4}).check(paper_table("table5"))
    for options, message in (({"seeds": []}, "at least one of `seeds`"), ({"rates": [1e-4, 1e-4]}, "all different")):
        with pytest.raises(ValueError, match=message):
            study(home, **options)
    with pytest.raises(ValueError, match="expected a task of GLUE, `ner` or `squad`. Received: none"):
        downstream_tasks()
    with pytest.raises(ValueError, match="need the GLUE files"):
        downstream_tasks(glue_tasks=["MRPC"])
    with pytest.raises(SystemExit, match="error: table7: expected tagged words"):
        run_recipe("ablations", *study_arguments(home, tmp_path / "new", "table7"))
    assert not (tmp_path / "new").exists()
