"""SIGINT and SIGTERM: the step is finished and saved, one line says so, and the run resumes bit for bit."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal
from helpers.forked_python import ForkedPython, start_kbert
from helpers.run_recipe import as_flags
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

from kbert import cli as program
from kbert.finetuning.features import write_features
from kbert.training.exact_resume import ExactResume
from kbert.training.loop import train
from kbert.training.run_log import read_history
from kbert.training.signals import Interrupted

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.fixture(autouse=True)
def handlers_of_python():
    """Those that a program has which is started in a terminal; one started in the background ignores SIGINT."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def assert_equal_but_for_parts(history, undisturbed, interrupted):
    """A window in which a run was interrupted is in two parts, whose losses are means over fewer steps."""
    steps = [record["step"] for record in undisturbed]
    assert [record["step"] for record in history] == sorted({*steps, *interrupted})
    for begin, record in zip([0, *steps], without_times(undisturbed), strict=False):
        [found] = [one for one in without_times(history) if one["step"] == record["step"]]
        if any(begin < step < record["step"] for step in interrupted):
            record, found = ({k: one[k] for k in ("learning_rate", "gradient_norm")} for one in (record, found))
        assert found == record


class Send(keras.callbacks.Callback):
    """This process sends itself a signal during a step."""

    def __init__(self, number, step):
        super().__init__()
        self.number, self.step = number, step

    def on_train_batch_begin(self, batch, logs=None):
        if self.model.optimizer.iterations.numpy() == self.step - 1:
            os.kill(os.getpid(), self.number)


def without_times(history):
    return [{k: v for k, v in record.items() if "second" not in k} for record in history]


def steps_saved(output):
    return [int(path.name.removeprefix("step-")) for path in sorted((output / "checkpoints").glob("step-*"))]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return tiny.run(tmp_path_factory.mktemp("uninterrupted"))


_SLOW = pytest.mark.slow  # the same with the other signal


@pytest.mark.parametrize(
    "step, number",
    [
        (6, signal.SIGTERM),
        (8, signal.SIGINT),
        # the first and the last window: test_a_run_that_is_interrupted_again_and_again
        pytest.param(2, signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(11, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(2, signal.SIGTERM, marks=_SLOW),
        pytest.param(6, signal.SIGINT, marks=_SLOW),
        pytest.param(8, signal.SIGTERM, marks=_SLOW),
        pytest.param(11, signal.SIGINT, marks=_SLOW),
    ],
)
def test_the_step_is_finished_and_saved_and_the_run_resumes(tmp_path, caplog, uninterrupted, number, step):
    handlers = {one: signal.getsignal(one) for one in STATUS}
    model = tiny.model()
    with pytest.raises(Interrupted, match=f"after step {step}. The same command resumes from the checkpoint of") as e:
        tiny.train(model, tiny.make_dataset, tiny.STEPS, tmp_path, window=tiny.WINDOW, callbacks=[Send(number, step)])
    assert isinstance(e.value, KeyboardInterrupt) and e.value.status == STATUS[number]
    assert {one: signal.getsignal(one) for one in STATUS} == handlers
    [message] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert message.count("\n") == 1  # an empty line before it
    assert steps_saved(tmp_path)[-1] == step
    history, weights = tiny.run(tmp_path)
    assert_arrays_equal(weights, uninterrupted[1])
    assert_equal_but_for_parts(history, uninterrupted[0], {step})
    assert without_times(read_history(tmp_path / "history.jsonl")) == without_times(history)


def test_a_signal_waits_for_the_scores(tmp_path):
    """They are in the checkpoint, and in one record with the steps before them."""

    def train(output, sends=()):
        model = tiny.model()
        scoring = tiny.held_out(model, tiny.make_dataset(300), 1, due=[2, 4])
        evaluate = scoring.evaluate
        scoring.evaluate = lambda: [os.kill(os.getpid(), number) for number in sends] and evaluate() or evaluate()
        return tiny.train(model, tiny.make_dataset, 4, output, window=3, every=3, scoring=[scoring]), scoring.records

    with pytest.raises(Interrupted, match="after step 2"):
        train(tmp_path / "interrupted", [signal.SIGTERM])
    assert steps_saved(tmp_path / "interrupted") == [2]
    (history, scores), (undisturbed, expected) = (train(tmp_path / name) for name in ("interrupted", "whole"))
    assert [record["step"] for record in undisturbed] == [2, 3, 4] and "val_loss" in undisturbed[0]
    assert without_times(history) == without_times(undisturbed) and scores == expected


def test_a_run_that_is_interrupted_again_and_again(tmp_path, uninterrupted):
    for number, step in zip([*STATUS, *STATUS], (2, 4, 6, 11), strict=True):
        with pytest.raises(Interrupted, match=f"after step {step}"):
            callbacks = [Send(number, step)]
            tiny.train(tiny.model(), tiny.make_dataset, tiny.STEPS, tmp_path, window=tiny.WINDOW, callbacks=callbacks)
    for _ in range(2):  # the second time nothing is left to do
        history, weights = tiny.run(tmp_path)
        assert_arrays_equal(weights, uninterrupted[1])
        assert_equal_but_for_parts(history, uninterrupted[0], {2, 4, 6, 11})


def test_handlers_of_the_program_are_left_alone(tmp_path):
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        callbacks = [Send(signal.SIGTERM, 2)]
        history = tiny.train(tiny.model(), tiny.make_dataset, 4, tmp_path, window=4, callbacks=callbacks)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM] and history[-1]["step"] == 4


def test_another_handler_of_the_program_is_left_after_a_signal(tmp_path):
    signal.signal(signal.SIGTERM, own := lambda number, frame: None)
    with pytest.raises(Interrupted):
        tiny.train(tiny.model(), tiny.make_dataset, 4, tmp_path, callbacks=[Send(signal.SIGINT, 2)])
    assert signal.getsignal(signal.SIGTERM) is own


class FailsInThirdStep(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 2:
            raise Killed


def test_an_error_in_a_fit_of_kbert_leaves_no_handlers(tmp_path):
    handlers = {one: signal.getsignal(one) for one in STATUS}
    model = tiny.model()
    resume = ExactResume(tmp_path, model, 4)  # alive, as in an interactive session
    with pytest.raises(Killed):
        model.fit(tiny.make_dataset(), steps_per_epoch=4, callbacks=[FailsInThirdStep(), resume], verbose=0)
    assert {one: signal.getsignal(one) for one in STATUS} == handlers


def test_after_an_error_in_a_fit_of_keras_the_next_training_has_the_signals(tmp_path):
    data = tf.data.Dataset.from_tensors((np.ones((2, 3)), np.ones((2, 1)))).repeat()

    def cell(name):
        """A function that calls `fit` each time with the same model and the same `ExactResume`."""
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        resume = ExactResume(tmp_path / name, model, 4)

        def fit(*callbacks):
            epochs = {"initial_epoch": resume.epoch, "epochs": 3}
            model.fit(data, steps_per_epoch=4, callbacks=[*callbacks, resume], verbose=0, shuffle=False, **epochs)
            return resume.step, resume.epoch

        return fit

    first, second = cell("first"), cell("second")
    with pytest.raises(Killed):
        first(Send(signal.SIGTERM, 2), FailsInThirdStep())
    with pytest.raises(KeyboardInterrupt) as stop:  # before the first step is done
        second(Send(signal.SIGINT, 1))
    assert not isinstance(stop.value, Interrupted)
    with pytest.raises(Killed):
        first(FailsInThirdStep())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook does before each cell
    with pytest.raises(KeyboardInterrupt, match="after step 8"):
        first(Send(signal.SIGINT, 8))
    assert first() == (12, 3)


def test_an_error_together_with_a_signal_does_not_end_the_next_training(tmp_path):
    model = tiny.model()
    resume = ExactResume(tmp_path, model, every=100)
    with pytest.raises(Killed):
        train(model, tiny.make_dataset, 4, callbacks=[Send(signal.SIGINT, 2), killed_at(2), resume])
    assert train(model, tiny.make_dataset, 4, callbacks=[resume]) == 4


def test_another_thread_trains_without_handlers(tmp_path):
    model, found = tiny.model(), []
    thread = threading.Thread(target=lambda: found.extend(tiny.train(model, tiny.make_dataset, 4, tmp_path, window=4)))
    thread.start()
    thread.join()
    assert found[-1]["step"] == 4


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_tiny_directory(path / "classifier", "classification", num_labels=2)
    write_table(path / "train.csv", sentences(48))
    (path / "texts.txt").write_text("good one\n" * 200_000)
    return path


def training(home, output, steps=100_000):
    return (
        "finetune",
        "classification",
        *as_flags(train=home / "train.csv", dev=0.1, source=home / "init", steps=steps),
        *as_flags(batch_size=8, sequence_length=9, checkpoint_every=10, output=output),
    )


def wait_for(path, process, seconds=600):
    """Until a file is there and not empty, or a directory holds such a file."""
    deadline = time.monotonic() + seconds
    while not _has_content(path):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)


def _has_content(path):
    try:
        if path.is_dir():
            return any(_has_content(inner) for inner in path.iterdir() if not inner.name.endswith(".lock"))
        return path.stat().st_size > 0
    except FileNotFoundError:  # not there yet, or renamed in this moment
        return False


def lines_about(printed):
    return [line for line in printed.splitlines() if "nterrupt" in line or "Traceback" in line or "  File" in line]


@pytest.mark.slow  # test_the_second_signal_ends_at_once
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=_SLOW)])
def test_a_recipe_that_trains(home, tmp_path, number):
    process = start_kbert(*training(home, tmp_path / "run"), eagerly=True)
    wait_for(tmp_path / "run" / "history.jsonl", process)
    process.send_signal(number)
    out, errors = process.communicate()
    assert process.returncode == STATUS[number], errors
    (line,) = lines_about(out + errors)
    step = steps_saved(tmp_path / "run")[-1]
    assert line.startswith(f"Interrupted after step {step}. The same command resumes from the checkpoint of step ")
    assert not [path for path in (tmp_path / "run").rglob("*") if path.name.endswith((".part", ".tmp"))]


# Processes: test_a_recipe_that_trains; the files: the next test, and tests/finetuning/test_predict_file.py.
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "recipe, name, hint",
    [
        (("predict",), "answers.jsonl", "The same command starts or resumes the run."),
        (("features", "--layers", "-1"), "features.jsonl", "No partial files were left."),
    ],
    ids=["resumes", "does not"],
)
def test_a_recipe_without_checkpoints(home, tmp_path, recipe, name, hint, number):
    output = tmp_path / "new" / name
    process = start_kbert(*recipe, "--source", home / "classifier", "--input", home / "texts.txt", "--output", output)
    resumes = "resumes" in hint
    wait_for(output.with_name(f"{name}.partial") / "settings.json" if resumes else output.parent, process)
    process.send_signal(number)
    out, errors = process.communicate()
    assert process.returncode == STATUS[number], errors
    (line,) = lines_about(out + errors)
    assert line == f"Interrupted by {signal.Signals(number).name}. {hint}"
    assert not output.exists()
    left = {path.name for path in output.parent.iterdir()} if output.parent.exists() else set()
    assert left <= ({f"{name}.partial"} if resumes else set())  # answers of some seconds, or nothing


def test_a_signal_while_a_file_is_written_leaves_none(monkeypatch, capsys, tmp_path):
    def texts():
        yield ["good"], np.zeros((1, 1, 2), "float32")
        os.kill(os.getpid(), signal.SIGTERM)
        yield ["bad"], np.zeros((1, 1, 2), "float32")

    monkeypatch.setattr("kbert.training.console.log_to_console", lambda: None)
    monkeypatch.setattr(sys, "argv", ["recipe.py"])
    with pytest.raises(SystemExit) as stop:
        program.run_command(lambda: write_features(tmp_path / "new" / "features.jsonl", texts(), [-1]), [])
    assert stop.value.code == STATUS[signal.SIGTERM]
    assert capsys.readouterr().err == "\nInterrupted by SIGTERM. No partial files were left.\n"
    assert not list(tmp_path.rglob("*.jsonl*"))


@pytest.mark.parametrize(
    "flags, hint",
    [
        ([], "No partial files were left."),
        (["--output", "runs/1"], "The same command starts or resumes the run."),
        (["--config", "config.yaml"], "The same command starts or resumes the run."),
        (["--config", "config.yaml", "--dry-run"], "No partial files were left."),
    ],
)
def test_a_run_without_output_is_not_resumed(monkeypatch, capsys, tmp_path, flags, hint):
    def train(output: str | None = None, dry_run: bool = False):
        raise Interrupted(signal.SIGTERM)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text("output: runs/1")
    with pytest.raises(SystemExit) as stop:
        program.run_command(program.Command(verb=train, resumes=True), flags, "train")
    assert stop.value.code == STATUS[signal.SIGTERM]
    warning = "" if flags else "no --output: no checkpoint and no model will be stored\n"
    assert capsys.readouterr().err == f"{warning}\nInterrupted by SIGTERM. {hint}\n"


def test_a_signal_in_a_callback_whose_errors_python_ignores_is_not_lost(monkeypatch, capsys):
    class Ignored:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    def main():
        del_it = Ignored()
        del del_it
        for _ in range(500):
            time.sleep(0.01)

    monkeypatch.setattr("kbert.training.console.log_to_console", lambda: None)
    monkeypatch.setattr(sys, "argv", ["recipe.py"])
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: print("shown", file=sys.stderr))
    with pytest.raises(SystemExit) as stop:
        program.run_command(main, [])
    assert stop.value.code == STATUS[signal.SIGINT]
    assert capsys.readouterr().err == "\nInterrupted by SIGINT. No partial files were left.\n"


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("module", ["numpy", "jaxlib._hlo"])  # native code imports the other one
def test_a_signal_while_a_program_is_imported(number, module):
    """From its first line on. The exception would end as another one, or as a crash, where native code imports."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip("not installed")
    script = """
    import os, signal, sys, time
    from kbert.cli import run_command

    class Killer:
        def find_spec(self, name, path=None, target=None):
            if name == sys.argv[2]:
                os.kill(os.getpid(), int(sys.argv[1]))

    def main():
        import keras
        print("imported", flush=True)
        time.sleep(600)

    sys.meta_path.insert(0, Killer())
    run_command(main, [])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(int(number)), module]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == STATUS[number]
    assert done.stderr.endswith(f"\nInterrupted by {number.name}. No partial files were left.\n")
    assert "Traceback" not in done.stderr


def test_a_signal_waits_for_an_import_and_the_second_does_not(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import os, signal, sys, time\n"
        "for _ in range(int(sys.argv[2])):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(0.2)\n"
        "print('imported', flush=True)\n"
    )
    script = """
    import sys, time
    from kbert.cli import run_command

    def main():
        sys.path.insert(0, sys.argv[1])
        import slow
        time.sleep(600)

    run_command(main, [])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    once, twice = (subprocess.run([*command, str(n)], capture_output=True, text=True, timeout=300) for n in (1, 2))
    assert (once.returncode, once.stdout) == (STATUS[signal.SIGTERM], "imported\n")
    assert (twice.returncode, twice.stdout) == (-signal.SIGTERM, "")


def test_a_signal_in_an_import_that_ends_the_program_leaves_its_status(tmp_path):
    (tmp_path / "last.py").write_text(
        "import os, signal, sys\nimport tensorflow  # takes long to end\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsys.exit(3)\n"
    )
    script = """
    import sys
    from kbert.cli import run_command

    def main():
        sys.path.insert(0, sys.argv[1])
        import last

    run_command(main, [])
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 3


def test_the_second_signal_ends_at_once(tmp_path):
    script = """
    import pathlib, signal, sys, time
    import keras, tensorflow
    from helpers import tiny_pretraining as tiny
    
    class Slow(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 2:
                pathlib.Path(sys.argv[1], "begun").write_text("now")
                while signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                    time.sleep(0.01)
                pathlib.Path(sys.argv[1], "received").write_text("the first")
                time.sleep(600)

    tensorflow.config.run_functions_eagerly(True)
    tiny.train(tiny.compiled_model(), tiny.make_dataset, 8, sys.argv[1], window=4, callbacks=[Slow()])
    """
    process = ForkedPython(None, tmp_path, code=textwrap.dedent(script))
    wait_for(tmp_path / "begun", process)
    process.send_signal(signal.SIGTERM)
    wait_for(tmp_path / "received", process)  # the step is being finished
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=300) == -signal.SIGTERM
    assert {path.name for path in tmp_path.iterdir()} <= {"begun", "received", "history.jsonl"}
