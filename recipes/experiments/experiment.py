"""What the scripts in this folder share: models pre-trained once, scores of fine-tunings, and a results file.

    python recipes/experiments/table5.py records --data data --output runs/tables

`--data` contains the folders glue, conll2003 and squad. Every run happens once: a pre-training is a directory in
`--output`, and a fine-tuning an entry of scores.json there. After a kill, start the script again. Scripts with the same
`--output` share both. Delete what you want to run again. The settings below apply to every table.
"""

import argparse
import collections
import datetime
import json
import math
import os
import pathlib
import platform
import re
import statistics

import kbert
from kbert.files import read_json, write_json
from kbert.options import Options
from kbert.versions import versions

PRETRAINING = {"size": "tiny", "steps": 40_000, "precision": "mixed_bfloat16"} | kbert.pretraining.preset(
    "small-budget"
)
PRETRAINING |= {"packed": False, "seed": 0, "keep_every": 8_000}  # the checkpoints are the points of figure 5
FINETUNING = {"epochs": 3, "batch_size": 32, "dropout": 0.0}
LEARNING_RATES = (3e-4, 1e-3)  # each row and task has the one with the best mean on dev
SEEDS = (0, 1, 2)
EXAMPLES = {"NER": 3000, "SST-2": 1000, "STS-B": 3000}  # to train on, at most
METRICS = {"CoLA": "matthews", "STS-B": "spearman", "NER": "f1", "SQuAD": "f1"}  # of tables 5 to 8; others: accuracy
HELD_OUT = ("mlm_accuracy", "mlm_perplexity", "mlm_cross_entropy", "nsp_accuracy")
BASELINE = "most frequent answer"

Column = collections.namedtuple("Column", "name task train dev metric")


def read_places(description: str) -> dict:
    """The paths on the command line, as arguments of `main`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", help="directory that `kbert records` wrote")
    parser.add_argument("--data", type=pathlib.Path, default="data", help="with glue/, conll2003/ and squad/")
    parser.add_argument("--output", type=pathlib.Path, default="runs/tables", help="for the runs and their scores")
    parser.add_argument("--results", type=pathlib.Path, default="results", help="for the table as JSON")
    kbert.log_to_console()
    return vars(parser.parse_args())


def read_columns(data: pathlib.Path, names, examples=None) -> list[Column]:
    """Tasks with their examples, of which the same ones are always used."""
    return [_read_column(data, name, (EXAMPLES if examples is None else examples).get(name)) for name in names]


def _read_column(data, name, number):
    if name == "NER":
        task = kbert.tasks.Tagging()
        train, dev = (task.read(data / "conll2003" / file) for file in ("eng.train", "eng.testa"))
    elif name == "SQuAD":
        task = kbert.tasks.SpanExtraction()
        train, dev = (task.read(data / "squad" / f"{split}-v1.1.json") for split in ("train", "dev"))
    else:
        task = kbert.tasks.glue(name)
        train, dev = (task.read(data / "glue", split) for split in ("train", "dev"))
    if number and number < len(train):  # of tagged words and questions the first ones: their documents stay whole
        train = train.take(range(number)) if name in ("NER", "SQuAD") else train.split(number)[1]
    return Column(name, task, train, dev, METRICS.get(name, "accuracy"))


def pretrained(records, output: pathlib.Path, name: str, **options) -> pathlib.Path:
    """The run of a row's pre-training. A run of pretrain_on_gpu.py in its place is used as it is."""
    run = output / re.sub(r"\W+", "-", name.lower()).strip("-")
    settings = PRETRAINING | options
    if not (run / "metrics.json").exists():
        kbert.pretrain(records, output=run, **settings)
    elif (run / "settings.json").exists():
        made = read_json(run / "settings.json")
        if changed := [key for key, value in flat(settings).items() if made.get(key, value) != value]:
            raise FileExistsError(f"{run} was made with other {', '.join(changed)}. Use another --output.")
    return run


def held_out_scores(run: pathlib.Path, step: int | None = None) -> dict:
    """Steps, minutes and held-out scores of a pre-training, at its end or at a step."""
    made = read_json(run / "metrics.json")
    if step not in (None, made["steps"]):
        lines = map(json.loads, (run / "history.jsonl").read_text().splitlines())
        scored = [line for line in lines if line["step"] <= step and "val_mlm_accuracy" in line][-1]
        minutes = made["minutes"] * step / made["steps"]
        made = {name.removeprefix("val_"): value for name, value in scored.items()} | {"steps": step}
        made["minutes"] = minutes
    made.setdefault("mlm_perplexity", math.exp(made["mlm_cross_entropy"]))
    return {name: made[name] for name in ("steps", "minutes", *HELD_OUT) if name in made}


class Scores:
    """The scores of fine-tunings, in percent: entries of a JSON file, each made once."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.entries = read_json(path)["finetunings"] if path.exists() else []

    def score(self, model: str, source, column: Column, **options) -> float | None:
        """The score on dev in the best epoch. None: the training diverged.

        Args:
            model: its name in the file.
            source: of `kbert.finetune`, or a function of (task, seed, dropout) that makes it.
            column: the task.
            **options: of `kbert.finetune`.
        """
        run = {"model": model, "task": column.name, "examples": [len(column.train), len(column.dev)], **options}
        found = [entry for entry in self.entries if entry["run"] == run]
        if not found:
            found = [{"run": run} | self._finetune(source, column, options)]
            self.entries += found
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, {"finetunings": self.entries})
        return found[0]["score"]

    def _finetune(self, source, column, options):
        options = {"sequence_length": 384 if column.name == "SQuAD" else 128} | options
        if callable(source):
            source = source(column.task.name, options["seed"], options.pop("dropout", None))
        try:
            metrics = kbert.finetune(source, column.task, column.train, column.dev, **options).metrics
        except FloatingPointError as error:
            return {"score": None, "diverged": str(error)}
        percent = 1.0 if column.name == "SQuAD" else 100.0
        best = max(scores[column.metric] for scores in metrics["evaluations"])
        return {"score": percent * best, "baseline": percent * metrics["constant_answer"][column.metric]}

    def row(self, name: str, model: str, source, columns, pretraining=None, paper=None, **options) -> dict:
        """A row of a table: for each column the scores of all seeds at the best rate.

        Args:
            name: of the row.
            model, source: see `score`.
            columns: list of `Column`.
            pretraining: of `held_out_scores`.
            paper: {column: the paper's score}.
            **options: of `kbert.finetune`, instead of FINETUNING.
        """
        scores, options = {}, FINETUNING | options
        for column in columns:
            grid = {
                rate: [self.score(model, source, column, learning_rate=rate, seed=seed, **options) for seed in SEEDS]
                for rate in LEARNING_RATES
            }
            trained = {rate: values for rate, values in grid.items() if None not in values}
            best = max(trained, key=lambda rate: statistics.mean(trained[rate]))
            tried = {f"{rate:g}": values for rate, values in grid.items()}
            scores[column.name] = summary(trained[best]) | {"learning_rate": best, "grid": tried}
        return {"name": name, "pretrained": pretraining or {}, "scores": scores, "paper": paper or {}}

    def baseline(self, columns) -> dict:
        """The row of always giving the most frequent answer."""
        found = {entry["run"]["task"]: entry["baseline"] for entry in self.entries if "baseline" in entry}
        scores = {column.name: summary([found[column.name]]) for column in columns}
        return {"name": BASELINE, "pretrained": {}, "scores": scores, "paper": {}}


def flat(options: dict) -> dict:
    """Options as settings.json has them: fields of groups by their own names."""
    values = {}
    for name, value in options.items():
        values |= value.to_json() if isinstance(value, Options) else {name: value}
    return values


def summary(values: list[float]) -> dict:
    """The scores of all seeds with their mean and standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"values": values, "mean": statistics.mean(values), "deviation": deviation}


def write_table(results: pathlib.Path, name: str, title: str, columns, rows, **more) -> dict:
    """Writes NAME.json with the rows, the settings, the machine and the versions, and prints the table."""
    settings = {"pretraining": flat(PRETRAINING), "finetuning": FINETUNING}
    settings |= {"learning_rates": LEARNING_RATES, "seeds": SEEDS}
    settings["examples"] = {column.name: {"train": len(column.train), "dev": len(column.dev)} for column in columns}
    result = {"table": name, "title": title, "columns": [column.name for column in columns], "rows": rows}
    result |= {"settings": settings} | more | provenance()
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / f"{name}.json", result)
    print(f"\n{title}\n\n{markdown(result)}")
    return result


def provenance() -> dict:
    """Date, processor and versions."""
    cpu = pathlib.Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", cpu.read_text()) if cpu.exists() else []
    processor = names[0] if names else platform.processor() or platform.machine()
    today = datetime.date.today().isoformat()
    return {"date": today, "processor": processor, "cores": os.cpu_count(), "versions": versions()}


def markdown(result: dict) -> str:
    """The table of a result, with the paper's scores beside."""
    rows = result["rows"] + [
        {"name": f"*paper: {name}*", "pretrained": {}, "scores": {}, "paper": paper}
        for name, paper in result.get("paper_rows", {}).items()
    ]
    columns = {"": [row["name"] for row in rows]}
    found = [row["pretrained"] for row in rows]
    is_one = len({one["mlm_perplexity"] for one in found if one}) < 2  # one pre-training for all rows
    if len({one["steps"] for one in found if one}) > 1:
        columns["steps"] = [f"{one['steps']:,}" if one else "" for one in found]
    for kind in () if is_one else ("masked-LM", "left-to-right"):  # scores of two objectives cannot be compared
        own = [one if one.get("left_to_right", False) == (kind == "left-to-right") else {} for one in found]
        if any(own):
            columns[f"{kind} perplexity"] = [f"{one['mlm_perplexity']:.1f}" if one else "" for one in own]
            columns[f"{kind} accuracy"] = [f"{one['mlm_accuracy']:.1%}" if one else "" for one in own]
    for column in result["columns"]:
        columns[column] = [_cell(row["scores"].get(column)) for row in rows]
        if any(column in row["paper"] for row in rows):
            columns[f"{column}, paper"] = [str(row["paper"].get(column, "")) for row in rows]
    lines = [[*columns], ["---"] * len(columns), *zip(*columns.values(), strict=True)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(score):
    if score is None:
        return ""
    return f"{score['mean']:.1f}" + ("" if score["deviation"] is None else f" ± {score['deviation']:.1f}")
