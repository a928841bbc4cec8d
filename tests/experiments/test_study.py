"""Tables by their command, at toy scale: what rows share is made once, and a killed command goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.paths import ROOT
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import RECIPES, as_flags, import_recipe, read_json, run_recipe
from helpers.tiny_corpus import write_lines
from helpers.tiny_directory import BAD, GOOD, NOUNS
from helpers.toy_glue import write_toy_glue
from helpers.toy_tags import tagged_sentences, write_conll

import kbert
from kbert.command_line.make_study import make_study
from kbert.corpus.write_records import write_records
from kbert.experiments import cells as cells_module
from kbert.experiments import pretrained_rows
from kbert.experiments.downstream import Downstream, downstream_tasks
from kbert.experiments.paper_tables import TABLES, paper_table
from kbert.experiments.study import Study
from kbert.tasks.features.train import FeatureTraining

WORDS = sorted({"the", "a", ".", "kind", "play", *GOOD, *BAD, *NOUNS})
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
TOY = (
    *as_flags(steps=5, pretraining_batch_size=64, pretraining_length=16, tasks="SST-2", train_examples=8),
    *as_flags(epochs=1, batch_size=8, sequence_length=16, restarts=1, learning_rate="1e-3"),
    *as_flags(pretraining_precision="float32"),
)
FEATURES = FeatureTraining(steps=1, batch_size=4, units=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    sentences = [f"the {(GOOD + BAD)[(n + n // 7) % 8]} {NOUNS[n * n % 5]} ." for n in range(200)]
    documents = [sentences[n : n + 5] for n in range(0, 200, 5)]
    write_lines(path / "corpus.txt", documents)
    write_records(documents, kbert.BertTokenizer(VOCABULARY), path / "records", held_out=0.2)
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_toy_glue(path / "glue")
    (path / "ner").mkdir()
    for name, start in (("train", 0), ("testa", 12)):
        write_conll(path / "ner" / f"eng.{name}", tagged_sentences(12, start=start))
    return path


def arguments(home, output, table, *more, source=("records",)):
    files = {"records": home / "records", "corpus": home / "corpus.txt", "vocab": home / "vocab.txt"}
    given = as_flags(table=table, glue=home / "glue", output=output, **{name: files[name] for name in source})
    return (*given, *TOY, *more)


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
        def run(*args, **options):
            counts[name] += 1
            if counts[name] == limit:
                raise KeyboardInterrupt
            return function(*args, **options)

        return run

    finetune = cells_module.Finetuning.run
    with run_eagerly(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained_rows, "pretrain", counted("pretrain", pretrained_rows.pretrain))
        patch.setattr(cells_module.Finetuning, "run", counted("finetune", finetune, limit=2))
        with pytest.raises(KeyboardInterrupt):
            run_recipe("ablations", *arguments(home, home / "runs", "table5"))
        first = dict(counts)
        run_recipe("ablations", *arguments(home, home / "runs", "table5"))
        run_recipe("ablations", *arguments(home, home / "runs", "table5"))  # everything is there
    return first, counts


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
    assert len(files) == 4 and all(path.suffix == ".json" and path.stat().st_size < 2000 for path in files)


def test_the_table(home, made):
    result = read_json(home / "runs" / "results" / "table5.json")
    rows = {row["name"]: row for row in result["rows"]}
    assert list(rows) == ["BERT", "No NSP", "LTR & No NSP", "+ BiLSTM"]
    for row in rows.values():
        assert len(row["scores"]["SST-2"]["values"]) == 1 and row["pretrained"]["steps"] == 5
        assert 0 <= row["scores"]["SST-2"]["mean"] <= 100
    assert "nsp_accuracy" in rows["BERT"]["pretrained"] and "nsp_accuracy" not in rows["No NSP"]["pretrained"]
    assert len(result["sentences"]) == 3 and str(home) not in json.dumps(result)


@pytest.mark.usefixtures("made", "eagerly")
def test_a_dry_run_says_what_is_left(home, tmp_path, capsys):
    recipe = arguments(home, home / "runs", "table5", "--dry-run")
    run_recipe("ablations", *recipe, "--learning-rate", "1e-3,1e-4")  # of which the first was taken before
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "0 of 3 pre-trainings are left to do",
        "4 of 8 fine-tunings and taggers on features are left to do",
    ]
    assert lines[2:] == [f"  table5, {name}: SST-2 1" for name in ("BERT", "No NSP", "LTR & No NSP", "+ BiLSTM")]
    run_recipe("ablations", *arguments(home, tmp_path / "new", "table5", "--dry-run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["3 of 3 pre-trainings are left to do", "  BERT (base)", "  No NSP (next_sentence-false)"]
    assert lines[4] == "4 of 4 fine-tunings and taggers on features are left to do"
    assert lines[9] == "The first pre-training, BERT:" and lines[-1].startswith("time: about")
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("made")
def test_taggers_on_features_are_counted(home):
    toy, row = study(home, seeds=[7]), paper_table("table8").rows[0]
    assert list(toy.trainings(row, toy.tasks[1], "last").values()) == [False]


def test_the_left_to_right_model_and_its_bilstm(home, made):
    [path] = (home / "runs" / "pretraining").glob("left_to_right*")
    model = kbert.load_pretrained(path)
    assert (model.task, model.config.causal) == ("masked_lm", True)
    assert (model.config.pooled_token, model.config.position_embedding) == ("last", "learned")
    metrics = read_json(path / "metrics.json")
    assert "nsp_accuracy" not in metrics and metrics["data"]["mask_token_rate"] is None
    options = [read_json(cell)["options"] for cell in (home / "runs" / "finetuning").glob("*left_to_right*.json")]
    assert sorted(one.get("bilstm", False) for one in options) == [False, True]


def test_restarts_are_seeds_and_pre_trainings_have_a_rate_of_their_own(home, tmp_path):
    recipe = import_recipe("ablations")
    given = arguments(home, tmp_path, "table5", *as_flags(restarts=3, seed=4, pretraining_learning_rate=3e-4))
    args = recipe.parse_arguments([str(part) for part in given])
    toy = make_study(args, "ablations.py")
    assert toy.seeds == [4, 5, 6] and toy.pretrainings.arguments["learning_rate"] == 3e-4 and toy.rates == [1e-3]


def study(home, source="records", **options):
    tasks = downstream_tasks(
        glue_directory=home / "glue",
        glue_tasks=["SST-2"],
        ner=[home / "ner" / f"eng.{n}" for n in ("train", "testa")],
        train_examples=8,
    )
    pretraining = {"size": "tiny", "steps": 5, "seed": 0, "batch_size": 64, "sequence_length": 16}
    pretraining |= {"precision": "float32", "packed": False}  # as TOY, and what its runs decide
    finetuning = {"epochs": 1.0, "batch_size": 8, "sequence_length": 16, "dropout": None, "bias_correction": False}
    shared = {"pretraining": pretraining, "finetuning": finetuning, "feature_training": FEATURES}
    return Study(home / source, home / "runs", tasks, **shared | options)


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


@pytest.mark.usefixtures("made", "eagerly")
def test_minutes_are_those_of_the_steps(home):
    toy, [row, *_] = study(home), paper_table("table5").rows
    found, path = toy.pretrainings.describe(row), toy.pretrainings.path(row)
    lines = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    assert found["minutes"] == pytest.approx(sum(line["seconds"] for line in lines) / 60) and found["minutes"] > 0
    assert found["minutes"] == read_json(path / "metrics.json")["minutes"] and found["epochs"] > 0


def test_what_cannot_work_is_said_before_anything_runs(home, tmp_path):
    by_the_clock = study(home, pretraining={"hours": 1.0})
    with pytest.raises(ValueError, match="is a share of a run of `steps`. Received: a run of hours"):
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
        run_recipe("ablations", *arguments(home, tmp_path / "new", "table7"))
    assert not (tmp_path / "new").exists()


@pytest.mark.slow  # minutes: every table, in a process that is killed once
def test_every_table_killed_and_resumed(home, tmp_path):
    more = as_flags(
        held_out=0.2, ner=home / "ner", feature_units=4, feature_epochs=1, sizes=["tiny", "mini"], restarts=1
    )
    given = arguments(home, tmp_path, "all", *more, source=("corpus", "vocab"))
    command = [sys.executable, RECIPES / "ablations.py", *given]
    command, environment = [str(part) for part in command], os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (tmp_path / "results" / "table5.json").exists():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "results" / "positions.json").exists()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in (tmp_path / "results").iterdir()} == set(TABLES)
    made = [path.name for path in (tmp_path / "pretraining").iterdir()]
    assert len(made) == 3 + 1 + 5 + 5 + 2 + 1  # table 5, mini, table 8, masking, next-sentence, positions
    for table in TABLES:
        result = read_json(tmp_path / "results" / f"{table}.json")
        assert all(row["scores"] for row in result["rows"])
