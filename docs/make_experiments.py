"""Writes the results in docs/experiments.md: `PYTHONPATH=. python docs/make_experiments.py`, from results/*.json."""

import argparse
import pathlib

from kbert.experiments.paper_tables import TABLES
from kbert.experiments.report import result_table
from kbert.files import read_json

ROOT = pathlib.Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs/experiments.md", ROOT / "results"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def with_results(page: str, results: pathlib.Path) -> str:
    """The page with a section for each model compared with random weights, and for each table that has been run."""
    before, rest = page.split(BEGIN)
    sections = [_comparison(path) for path in sorted(results.glob("finetuning-*.json"))]
    sections += [_section(results / f"{name}.json") for name in TABLES if (results / f"{name}.json").is_file()]
    nothing = ["No results.\n"]
    return before + BEGIN + "\n" + "\n".join(sections or nothing) + "\n" + END + rest.split(END)[1]


def _section(path):
    result = read_json(path)
    pretraining = ", ".join(f"{name} {value}" for name, value in result["settings"]["pretraining"].items())
    finetuning = ", ".join(f"{name} {value}" for name, value in result["settings"]["finetuning"].items())
    features = ", ".join(f"{name} {value}" for name, value in result["settings"]["feature_training"].items())
    features = f" Taggers on features: {features}." if any(" " in name for name in result["columns"]) else ""
    once = {row["pretrained"]["minutes"] for row in result["rows"] if row["pretrained"]}
    rates = f"learning rates {result['settings']['learning_rates']}"
    return (
        f"{_head(result, path)}"
        f"Pre-trainings: {pretraining}; {min(once):,.0f} to {max(once):,.0f} minutes each. Fine-tunings: seeds "
        f"{result['settings']['seeds']}, {rates}, {finetuning}.{features} "
        f"Examples to learn from and to evaluate on: {_examples(result)}. {_made(result)}.\n"
    )


def _comparison(path):
    result = read_json(path)
    settings = result["settings"]
    grid = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, values))}" for name, values in settings["grid"].items()
    )
    chosen = {"dev": "on dev", "train": "on a fifth of the training examples"}[settings["choose_on"]]
    shared = "".join(f", {name.replace('_', ' ')} {value}" for name, value in settings["finetuning"].items())
    return (
        f"{_head(result, path)}"
        f"Chosen {chosen} with the first seed, for every row and column: {grid}. Seeds {settings['seeds']}{shared}. "
        f"Examples to learn from and to evaluate on: {_examples(result)}. {_minutes(result)}{_made(result)}.\n"
    )


def _minutes(result):
    """What the pre-training and the fine-tunings of the first row took, where the file says it."""
    row = result["rows"][0]
    parts = [f"{name} {score['minutes']:.1f}" for name, score in row["scores"].items() if "minutes" in score]
    before = f"The pre-training took {row['pretrained']['minutes']:.0f} minutes" if row["pretrained"] else ""
    after = f"{', a' if before else 'A'} fine-tuning on average {', '.join(parts)} minutes" if parts else ""
    return f"{before}{after}. " if before or after else ""


def _head(result, path):
    plot = f"![{result['title']}](../results/{path.stem}.svg)\n\n" if path.with_suffix(".svg").is_file() else ""
    return f"### {result['title']}\n\n{result_table(result)}\n{plot}"


def _examples(result):
    found = {name: n for name, n in result["settings"]["examples"].items() if name in result["columns"]}
    return ", ".join(f"{name} {n['train']:,} and {n['dev']:,}" for name, n in found.items())


def _made(result):
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"{result['date']}; {result['settings']['processor']}, {result['settings']['cores']} cores; {versions}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=RESULTS, help="directory (default: results/)")
    args = parser.parse_args()
    if not args.results.is_dir():
        parser.error(f"no such directory: {args.results}")
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), args.results), encoding="utf-8")
