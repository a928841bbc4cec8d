"""Kills pre-trainings, fine-tunings and predictions at random moments, and checks that they end as undisturbed ones.

    python tests/faults/random_kills.py DIRECTORY [KILLS [KIND …]]

KILLS (30) of each KIND (pre-training, fine-tuning and prediction). A run may be killed up to three times before it is
left to end. Then its weights, scores, history and files, or its answers, must be those of an undisturbed run, bit for
bit. Every run is a line of kills.jsonl in DIRECTORY, and the same command continues after the last one.
"""

import collections
import json
import pathlib
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.fault_inputs import write_inputs  # noqa: E402
from helpers.fault_runs import Fault, FaultRun  # noqa: E402
from helpers.recipe_processes import RecipeProcesses  # noqa: E402

KINDS = {
    "pre-training": ("text", "phases", "records"),
    "fine-tuning": ("table", "patience"),
    "prediction": ("predict",),
}


def faults_of(kind: str, number: int) -> tuple[str, list[Fault]]:
    """The recipe and the kills of a run, by its number."""
    source = random.Random(f"{kind} {number}")
    recipe = KINDS[kind][number % len(KINDS[kind])]
    times = source.choice((1, 1, 2, 3))
    return recipe, [Fault(source.choice(("kill", "kill at a time")), source.random()) for _ in range(times)]


def main(directory: str, kills: int = 30, kinds: Sequence[str] = ()) -> None:
    kinds = kinds or list(KINDS)
    path = pathlib.Path(directory) / "kills.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = collections.Counter()
    for line in lines:
        done[line["kind"]] += line["kills"]
    numbers = collections.Counter(line["kind"] for line in lines)
    references = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        home = write_inputs(place / "home")
        with RecipeProcesses(place / "processes", quick=True) as processes:
            while kind := min(
                (kind for kind in kinds if done[kind] < kills), key=lambda kind: done[kind], default=None
            ):
                recipe, faults = faults_of(kind, numbers[kind])
                numbers[kind] += 1
                if recipe not in references:
                    references[recipe] = FaultRun(processes, home, place / recipe, recipe).undisturbed()
                run = place / f"{recipe}-{numbers[kind]}"
                try:
                    outcomes, error = FaultRun(processes, home, run, recipe).meet(references[recipe], *faults), None
                except AssertionError as raised:
                    outcomes, error = [], str(raised)[-3000:]
                shutil.rmtree(run)
                killed = max(1, outcomes.count("resumed")) if error else outcomes.count("resumed")
                done[kind] += killed
                line = {"kind": kind, "recipe": recipe, "kills": killed, "error": error}
                line["moments"] = [(fault.kind, round(fault.moment, 3)) for fault in faults[: len(outcomes) or None]]
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                lines.append(line)
                print(kind, recipe, f"{killed} kills", error or "identical", flush=True)
    failed = [line for line in lines if line["error"]]
    print(", ".join(f"{kind}: {done[kind]} kills" for kind in kinds), f"in {len(lines)} runs, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 30, sys.argv[3:])
