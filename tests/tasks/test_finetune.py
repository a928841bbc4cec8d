"""kbert.finetune: what it takes, keeps, resumes and leaves alone."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
from kbert.tasks.finetuning import Finetuning
from kbert.tasks.task import Evaluation
from kbert.training.hardware import Hardware

TASK = kbert.tasks.Classification()
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, checkpoint_every=4, steps=12, evaluate_every=3)
SHORT = QUICK | {"steps": 4, "evaluate_every": 2}
ROWS, DEV = sentences(30), sentences(9, start=30)


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    """All runs but that of `test_what_happens_is_logged`."""
    with run_eagerly():
        yield


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    return write_tiny_directory(tmp_path_factory.mktemp("home") / "init")


@dataclasses.dataclass(frozen=True)
class Scripted(kbert.tasks.Classification):
    """Scores as they are written down, one an evaluation; a step of training tells which comes next."""

    script: tuple[float, ...] = (0.5, 0.9, 0.7, 0.8)

    def evaluate(self, pipeline, examples, **options):
        done = int(pipeline.model.optimizer.iterations.numpy())
        return Evaluation({"accuracy": self.script[done // 3 - 1]}, None)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def run(init, tmp_path_factory):
    return kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path_factory.mktemp("runs") / "run", **QUICK)


def test_the_best_weights_are_kept(init, run):
    assert run.metrics["kept_step"] == 6
    assert [(one["step"], one["accuracy"]) for one in run.metrics["evaluations"]] == [
        (3, 0.5),
        (6, 0.9),
        (9, 0.7),
        (12, 0.8),
    ]
    stored = kbert.load_pretrained(run.path).get_weights()
    assert same(stored, run.pipeline.model.get_weights())
    last = kbert.finetune(init, Scripted(), ROWS, DEV, **QUICK, keep="last")
    assert last.metrics["kept_step"] == 12 and not same(stored, last.pipeline.model.get_weights())
    until = []
    best = Finetuning(
        init, Scripted(), ROWS, DEV, callbacks=[AtStep(6, lambda model: until.extend(weights(model)))], **QUICK
    )
    assert same(best.run().pipeline.model.get_weights(), until) and same(until, stored)


def weights(model):
    return [variable.numpy() for variable in model.weights]


class AtStep(keras.callbacks.Callback):
    """Calls a function of the model after a step."""

    def __init__(self, step, call):
        super().__init__()
        self.step, self.call = step, call

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == self.step:
            self.call(self.model)


class Killed(Exception):
    pass


@pytest.mark.parametrize("step", [7, 11])
def test_a_run_killed_after_its_best_epoch_is_resumed_to_the_same_model(init, run, tmp_path, step):
    def kill(model):
        raise Killed

    with pytest.raises(Killed):  # the last checkpoint is of step 4 or 8: before or after the best evaluation
        kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", callbacks=[AtStep(step, kill)], **QUICK)
    assert (tmp_path / "run" / "checkpoints" / "best-0000000006.npz").exists()
    unfinished = kbert.load_pretrained(tmp_path / "run")  # its last checkpoint
    assert unfinished.task == run.pipeline.model.task
    assert list(unfinished.pretrained.settings.labels) == list(run.pipeline.settings()["labels"])
    resumed = kbert.finetune(init, Scripted(), ROWS, DEV, tmp_path / "run", **QUICK)
    assert same(resumed.pipeline.model.get_weights(), run.pipeline.model.get_weights())
    for name in ("dev", "evaluations", "kept_step"):
        assert resumed.metrics[name] == run.metrics[name]
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert [record["step"] for record in resumed.history] == [record["step"] for record in run.history]


def test_history_has_the_scores_and_evaluation_changes_nothing(init, run):
    assert [r["val_accuracy"] for r in run.history if "val_accuracy" in r] == [0.5, 0.9, 0.7, 0.8]
    silent = kbert.finetune(init, TASK, ROWS, **SHORT)
    often = kbert.finetune(init, TASK, ROWS, DEV, **(SHORT | {"evaluate_every": 1}), keep="last")
    assert same(silent.pipeline.model.get_weights(), often.pipeline.model.get_weights())
    assert len(often.metrics["evaluations"]) == 4 and "dev" not in silent.metrics


def test_patience(init, tmp_path):
    task = Scripted(script=(0.5, 0.9, 0.7, 0.8))
    stopped = kbert.finetune(init, task, ROWS, DEV, tmp_path / "run", **QUICK, patience=1)
    assert [one["step"] for one in stopped.metrics["evaluations"]] == [3, 6, 9]
    assert stopped.metrics["kept_step"] == 6 and stopped.history[-1]["step"] == 9


def test_without_an_output_nothing_is_written(init, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = kbert.finetune(init, TASK, ROWS, DEV, **SHORT)
    assert run.path is None and not list(tmp_path.iterdir())
    again = kbert.finetune(init, TASK, ROWS, DEV, tmp_path / "run", **SHORT)
    assert same(run.pipeline.model.get_weights(), again.pipeline.model.get_weights())


class Frame:
    """As pandas has it."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return np.array(self._columns[name], object)


def test_rows_in_memory_in_every_form(tmp_path):
    texts, labels = (list(column) for column in zip(*ROWS, strict=True))
    columns = {"text": texts, "label": labels}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    pairs = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(7)
    write_table(tmp_path / "train.csv", ROWS)
    forms = [
        ROWS,
        columns,
        [{"text": text, "label": label, "other": 1} for text, label in ROWS],
        Frame(columns),
        dataset,
        dataset.batch(7),
        pairs,
        tmp_path / "train.csv",
        TASK.read(tmp_path / "train.csv"),
    ]
    for form in forms:
        examples = TASK.examples(form)
        assert (list(examples.texts), list(examples.label_names)) == (texts, ["bad", "good"])
        assert [examples.label_names[n] for n in examples.labels] == labels
        assert examples.fingerprint() == TASK.examples(ROWS).fingerprint()


@pytest.mark.parametrize(
    "data, message",
    [
        ([("a",)], r"row 0: expected 2 values, \['text', 'label'\]"),
        ([], "at least one row"),
        ({"text": ["a"]}, r"missing: \['label'\]"),
        ([{"text": "a", "label": None}], "row 0: expected a label in 'label'"),
        ([("a", ["b"])], "row 0: 'label' must be a string or a number"),
        (tf.data.Dataset.from_tensors({"text": "a", "label": 1}).repeat(), "a finite dataset"),
    ],
)
def test_rows_that_are_none(data, message):
    with pytest.raises(ValueError, match=message):
        TASK.examples(data)
    with pytest.raises(TypeError, match="Received: int"):
        TASK.examples(3)


def test_models_and_pipelines_are_trained_themselves(init):
    encoder = kbert.load_pretrained(init, "encoder")
    before = encoder.get_weights()
    run = kbert.finetune(encoder, TASK, ROWS, DEV, **(QUICK | {"steps": 2}))
    assert run.pipeline.model.encoder is encoder and not same(before, encoder.get_weights())
    again = kbert.finetune(run.pipeline, TASK, ROWS, **(QUICK | {"steps": 2}), class_weight={"good": 2.0})
    assert again.pipeline.model is run.pipeline.model
    with pytest.raises(ValueError, match="a source that is loaded"):
        kbert.finetune(encoder, TASK, ROWS, dropout=0.1)
    with pytest.raises(ValueError, match=r"`class_weight` is of a classifier's labels.*Received: \['fine'\]"):
        kbert.finetune(encoder, TASK, ROWS, class_weight={"fine": 1.0}, sequence_length=9)


def test_random_weights_keep_only_the_architecture(init):
    rows = [*ROWS, ("the film", "so so")]

    def built(**options):
        return Finetuning(init, TASK, rows, **(QUICK | options)).pipeline.model

    loaded, fresh = built(), built(random_weights=True, dropout=0.0)
    again, other = (built(random_weights=True, dropout=0.0, seed=seed) for seed in (0, 1))
    kernels = [
        next(v.numpy() for v in m.weights if v.path.endswith("attention/query/kernel"))
        for m in (kbert.load_pretrained(init, task="encoder"), loaded, fresh, again, other)
    ]
    np.testing.assert_array_equal(kernels[0], kernels[1])
    np.testing.assert_array_equal(kernels[2], kernels[3])
    assert np.abs(kernels[2] - kernels[0]).max() > 0.01
    assert np.abs(kernels[2] - kernels[4]).max() > 0.01
    assert (fresh.num_labels, fresh.dropout, fresh.config.attention_dropout) == (3, 0.0, 0.0)
    assert (loaded.dropout, loaded.config.attention_dropout) == (0.1, 0.1)
    assert fresh.count_params() == loaded.count_params()


def test_other_rows_do_not_resume(init, tmp_path):
    Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK).open()
    for rows, message in ((ROWS[:-1], "other rows in train"), (ROWS, None)):
        work = Finetuning(init, TASK, rows, DEV, tmp_path / "run", **QUICK)
        kbert_locks_free(tmp_path / "run")
        if message:
            with pytest.raises(ValueError, match=message):
                work.open()
        else:
            assert work.open().resume
    with pytest.raises(FileExistsError, match="seed: 0 there, 1 now"):
        Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK, seed=1).open()


def test_a_run_records_all_that_it_reads(init, tmp_path):
    for name in ("train", "dev", "more"):
        write_table(tmp_path / f"{name}.csv", ROWS)
    files = {name: TASK.read(tmp_path / f"{name}.csv") for name in ("train", "dev", "more")}
    work = Finetuning(
        init, TASK, files["train"], files["dev"], tmp_path / "run", more_dev={"_more": files["more"]}, **QUICK
    )
    work.open()
    recorded = read_json(tmp_path / "run" / "inputs.json")
    assert set(recorded["inputs"]) == {"train", "dev", "more_dev", "init"} and set(recorded["made_by"]) == {"init"}
    assert recorded["examples"] == {name: files[name].fingerprint() for name in ("train", "dev")}
    train, dev = files["train"].split(0.2)
    Finetuning(init, TASK, train, dev, tmp_path / "split", **QUICK).open()
    assert set(read_json(tmp_path / "split" / "inputs.json")["inputs"]) == {"train", "init"}


def kbert_locks_free(path):
    from kbert.locks import unlock_directory

    unlock_directory(path)


def test_an_estimate_writes_nothing(init, tmp_path):
    work = Finetuning(init, TASK, ROWS, DEV, tmp_path / "run", **QUICK)
    estimate = work.estimate()
    assert not (tmp_path / "run").exists()
    model = work.pipeline.model
    assert (estimate["examples"], estimate["windows"], estimate["steps"]) == (30, 30, 12)
    assert estimate["parameters"] == estimate["trainable_parameters"] == model.count_params()
    assert estimate["memory_bytes"] > 16 * model.count_params() and estimate["seconds"] > 0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, "`steps` must be a whole number"),
        ({"epochs": 0}, "`epochs` must be a number above 0"),
        ({"keep": "first"}, '"best" or "last"'),
        ({"evaluate_every": "day"}, "evaluate_every"),
    ],
)
def test_wrong_options_are_named(init, options, message):
    with pytest.raises(ValueError, match=message):
        kbert.finetune(init, TASK, ROWS, **options)


def test_balanced_classes_weigh_the_same(init):
    from kbert.tasks.classification.dataset import class_weights

    work = Finetuning(init, TASK, ROWS, **QUICK)
    factors = class_weights("balanced", work.pipeline, work.train)
    sums = [factors[work.train.labels == n].sum() for n in (0, 1)]
    assert sums == pytest.approx([15, 15])
    _, _, given = next(
        iter(
            work.task.training_data(
                work.pipeline, work.train, class_weight="balanced", batch_size=30, padding="longest"
            ).make_dataset(0)
        )
    )
    assert sorted(given["logits"].numpy().tolist()) == pytest.approx(sorted(factors.tolist()))


def test_what_happens_is_logged(init, caplog):
    caplog.set_level("INFO", logger="kbert")
    tf.config.run_functions_eagerly(False)
    run = kbert.finetune(init, TASK, ROWS, DEV, **SHORT)
    tf.config.run_functions_eagerly(True)
    assert all(np.isfinite(value).all() for value in run.pipeline.model.get_weights())
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("step 2, dev: loss") for line in lines)
    assert any(line.startswith("first step done after") for line in lines)
    assert any(line.startswith("step 4/4") for line in lines)


def test_a_notebook_does_not_print_every_row(run):
    examples = TASK.examples(ROWS)
    assert repr(examples) == "<LabelledText: 30 rows of rows in memory>"
    assert len(repr(run)) < 2000 and "kept_step" in repr(run) and "learning_rate" not in repr(run)


@pytest.mark.parametrize("task", [kbert.tasks.Classification, "classification"])
def test_what_is_no_task_object_is_named(init, run, task):
    with pytest.raises(
        TypeError, match=r"expected `task` as a task object, such as kbert\.tasks.*Received: .*lassification"
    ):
        kbert.finetune(init, task, ROWS, **QUICK)
    with pytest.raises(TypeError, match=r"evaluate: expected `task` as a task object"):
        kbert.evaluate(run.pipeline, task, ROWS)


def test_a_wrong_class_weight_leaves_nothing_behind(init, tmp_path):
    with pytest.raises(ValueError, match=r"of a classifier's labels, \['bad', 'good'\]. Received: \['fine'\]"):
        kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", class_weight={"fine": 2.0}, **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["epochs", "learning_rate"])
def test_a_rate_that_is_no_number_is_named(init, option):
    with pytest.raises(ValueError, match=f"`{option}` must be a number above 0. Received: '3'"):
        kbert.finetune(init, TASK, ROWS, **(QUICK | {option: "3"}))


def test_accumulated_batches_are_the_batch(init):
    """Without dropout, in two steps: the rows of a step are the same ones, in more batches."""
    plan = QUICK | {"steps": 2, "dropout": 0.0, "keep": "last", "layer_decay": 0.5, "evaluate_every": None}
    whole, parts = (kbert.finetune(init, TASK, ROWS, **plan, accumulate=n).pipeline.model for n in (1, 2))
    assert whole.optimizer.layer_decay == parts.optimizer.layer_decay == 0.5
    assert parts.optimizer.gradient_accumulation_steps == 2 and int(parts.optimizer.iterations.numpy()) == 2
    for one, other in zip(whole.get_weights(), parts.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)  # also the rates are those of the updates
    with pytest.raises(ValueError, match="multiple of `accumulate`. Received: 8 and 3"):
        kbert.finetune(init, TASK, ROWS, **QUICK, accumulate=3)
    with pytest.raises(ValueError, match="`layer_decay` must be in"):
        kbert.finetune(init, TASK, ROWS, **QUICK, layer_decay=1.5)


def test_replicas_do_not_accumulate(init, monkeypatch):
    two = Hardware(object(), "mirrored", 2, "float32", False, ())
    monkeypatch.setattr("kbert.tasks.finetuning.choose_hardware", lambda *arguments, **options: two)
    with pytest.raises(ValueError, match="`accumulate` is for one device of TensorFlow.*Received: accumulate=2"):
        kbert.finetune(init, TASK, ROWS, **QUICK, accumulate=2)
