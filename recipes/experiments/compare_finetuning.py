"""Fine-tune a model and random weights of its architecture, each with its own best settings.

    python recipes/experiments/compare_finetuning.py saved_models/kbert-tiny --data data --output runs/comparison

For each task, the first seed tries every setting of GRID, and all seeds run the best one on dev, at the last step.
Further models are rows for comparison. Scores are kept in scores.json, so a killed script resumes (experiment.py).
Writes finetuning-NAME.json.
"""

import argparse
import itertools
import pathlib

from experiment import HELD_OUT, Scores, markdown, provenance, read_columns, summary

import kbert
from kbert.files import write_json
from kbert.weights.provenance import describe_maker

COLUMNS = ("STS-B", "NER", "SST-2", "MRPC")  # and CoLA, SQuAD
EXAMPLES = {"NER": 3000, "SST-2": 1000, "SQuAD": 2000}  # to train on, at most
GRID = {"learning_rate": (1e-4, 3e-4, 1e-3), "epochs": (3, 6), "dropout": (0,)}
SEEDS = (0, 1, 2)
FINETUNING = {"batch_size": 32}
LAST_STEP = {"keep": "last", "evaluate_every": None}


def main(source, others, data, output, results):
    columns = read_columns(data, COLUMNS, EXAMPLES)
    scores = Scores(output / "scores.json")
    rows = [
        new_row(scores, name_of(source), source, columns) | {"pretrained": pretraining_of(source)},
        new_row(scores, "random weights", source, columns, random_weights=True),
        *(new_row(scores, name_of(other), other, columns) for other in others),
        scores.baseline(columns),
    ]
    sizes = {column.name: {"train": len(column.train), "dev": len(column.dev)} for column in columns}
    settings = {"examples": sizes, "grid": GRID, "seeds": SEEDS, "finetuning": FINETUNING}
    result = {"table": f"finetuning-{name_of(source)}", "columns": list(COLUMNS), "rows": rows, "settings": settings}
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / f"{result['table']}.json", result | provenance())
    print(markdown(result))


def new_row(scores, name, source, columns, **options):
    """For each column the scores of all seeds with the best setting, and what was tried."""
    settings = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    found = {}
    for column in columns:

        def score(seed, setting, column=column):
            more = FINETUNING | LAST_STEP | options | setting
            return scores.score(name, source, column, seed=seed, **more)

        tried = [score(SEEDS[0], setting) for setting in settings]
        best = settings[tried.index(max(value for value in tried if value is not None))]
        found[column.name] = summary([score(seed, best) for seed in SEEDS]) | {"options": best}
        pairs = zip(settings, tried, strict=True)
        found[column.name]["grid"] = [{"options": setting, "value": value} for setting, value in pairs]
    return {"name": name, "pretrained": {}, "scores": found, "paper": {}}


def name_of(source):
    """The name of a model's directory, or of the run that contains it."""
    path = pathlib.Path(source)
    return path.parent.name if path.name == "model" else path.name


def pretraining_of(source):
    """Held-out scores of a model, with the steps and minutes of all runs behind it."""
    maker = describe_maker(source) or {}
    found = {name: value for name, value in maker.get("metrics", {}).items() if name in HELD_OUT}
    while "steps" in maker.get("metrics", {}):
        for name in ("steps", "minutes"):
            found[name] = found.get(name, 0) + maker["metrics"][name]
        maker = maker.get("inputs", {}).get("init", {}).get("made_by") or {}  # the run that it continued
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="the model")
    parser.add_argument("others", nargs="*", help="further models")
    parser.add_argument("--data", type=pathlib.Path, default="data", help="with glue/, conll2003/ and squad/")
    parser.add_argument("--output", type=pathlib.Path, default="runs/comparison", help="for scores.json")
    parser.add_argument("--results", type=pathlib.Path, default="results", help="for the table as JSON")
    kbert.log_to_console()
    main(**vars(parser.parse_args()))
