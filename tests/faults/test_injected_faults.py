"""Pre-training and fine-tuning under injected faults: the same results in the end, or one line that says what is wrong.

The suite tries a few in a row. A slow test tries a hundred random ones and prints what became of them, for
docs/training.md: pytest -m slow -n0 -s tests/faults/test_injected_faults.py
"""

import collections
import concurrent.futures
import functools
import queue

import pytest
from helpers.fault_inputs import write_inputs
from helpers.fault_runs import KINDS, RECIPES, Fault, FaultRun, random_faults
from helpers.recipe_processes import RecipeProcesses


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("faults") / "home")


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with RecipeProcesses(tmp_path_factory.mktemp("processes"), quick=True) as processes:
        yield processes


@pytest.fixture(scope="module")
def references(home, processes, tmp_path_factory):
    """Function from a key of RECIPES to what a run ends with that nothing befalls."""
    place = tmp_path_factory.mktemp("references")
    return functools.cache(lambda recipe: FaultRun(processes, home, place / recipe, recipe).undisturbed())


@pytest.mark.slow  # in default runs: fine-tuning, below, and tests/pretraining/run/test_two_phases.py
def test_pretraining(home, processes, references, tmp_path):
    faults = [Fault("kill", 0.1), Fault("two at once", 0.3)]
    outcomes = FaultRun(processes, home, tmp_path / "place", "records").meet(references("records"), *faults)
    assert outcomes == ["resumed", "survived"]


FAULTS = {
    Fault("power cut", 0.25): "resumed",
    Fault("other input", 0.1): "refused",
    Fault("zeroed", 0.05, seed=1): "resumed",
    Fault("two at once", 0.3): "survived",
}
MORE = {  # in default runs: test_full_disk.py, tests/training/test_signals.py and test_divergence.py
    Fault("full disk", 0.1): "resumed",
    Fault("SIGTERM", 0.1): "resumed",
    Fault("not a number", 0.75): "resumed",
}


@pytest.mark.slow  # a full disk and a kill: test_full_disk.py, finetuning/test_finetune.py
@pytest.mark.parametrize("faults", [FAULTS, MORE], ids=["files", "processes"])
def test_fine_tuning(home, processes, references, tmp_path, faults):
    outcomes = FaultRun(processes, home, tmp_path / "place", "table").meet(references("table"), *faults)
    assert dict(zip(faults, outcomes, strict=True)) == faults


@pytest.mark.slow
def test_a_hundred_random_faults(home, references, tmp_path):
    """Two at a time, as each waits for one process."""
    wanted = {recipe: references(recipe) for recipe in RECIPES}
    found, failures, idle = collections.Counter(), [], queue.Queue()

    def meet(number, recipe, fault):
        processes = idle.get()
        try:
            (outcome,) = FaultRun(processes, home, tmp_path / str(number), recipe).meet(wanted[recipe], fault)
        except AssertionError as error:
            outcome = "FAILED"
            failures.append(f"{number}: {recipe}, {fault}: {str(error)[-3000:]}")
        idle.put(processes)
        print(number, recipe, fault, outcome, flush=True)
        found[fault.kind, outcome] += 1

    with RecipeProcesses(tmp_path / "one", quick=True) as one, RecipeProcesses(tmp_path / "two", quick=True) as two:
        idle.put(one)
        idle.put(two)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for number, (recipe, fault) in enumerate(random_faults(100)):
                pool.submit(meet, number, recipe, fault)
    print(table(found))
    assert sum(found.values()) == 100 and not failures, "\n\n".join(failures)


def table(found):
    """Kinds by outcomes, as Markdown."""
    outcomes = ("survived", "resumed", "refused", "FAILED")
    lines = ["| fault | " + " | ".join(outcomes) + " |", "|---" * 5 + "|"]
    for kind in KINDS:
        lines.append(f"| {kind} | " + " | ".join(str(found[kind, outcome]) for outcome in outcomes) + " |")
    return "\n".join(lines)
