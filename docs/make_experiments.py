"""Writes the results in docs/experiments.md: `PYTHONPATH=. python docs/make_experiments.py`, from results/*.json."""

import pathlib
import sys

from kbert.experiments.paper_tables import TABLES
from kbert.experiments.report import result_table
from kbert.files import read_json

ROOT = pathlib.Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs/experiments.md", ROOT / "results"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def with_results(page: str, results: pathlib.Path) -> str:
    """The page with a section for each table that has been run."""
    before, rest = page.split(BEGIN)
    sections = [_section(results / f"{name}.json") for name in TABLES if (results / f"{name}.json").is_file()]
    nothing = ["No table has been run at a scale worth reading yet.\n"]
    return before + BEGIN + "\n" + "\n".join(sections or nothing) + "\n" + END + rest.split(END)[1]


def _section(path):
    result = read_json(path)
    pretraining = ", ".join(f"{name} {value}" for name, value in result["settings"]["pretraining"].items())
    finetuning = ", ".join(f"{name} {value}" for name, value in result["settings"]["finetuning"].items())
    examples = ", ".join(
        f"{name} {n['train']:,} and {n['dev']:,}" for name, n in result["settings"]["examples"].items()
    )
    features = ", ".join(f"{name} {value}" for name, value in result["settings"]["feature_training"].items())
    features = f" Taggers on features: {features}." if any(" " in name for name in result["columns"]) else ""
    machine = f"{result['settings']['processor']}, {result['settings']['cores']} cores"
    once = {row["pretrained"]["minutes"] for row in result["rows"] if row["pretrained"]}
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    plot = f"![{result['title']}](../results/{path.stem}.svg)\n\n" if path.with_suffix(".svg").is_file() else ""
    rates = f"learning rates {result['settings']['learning_rates']}"
    return (
        f"### {result['title']}\n\n{result_table(result)}\n{plot}"
        f"Pre-trainings: {pretraining}; {min(once):,.0f} to {max(once):,.0f} minutes each. Fine-tunings: seeds "
        f"{result['settings']['seeds']}, {rates}, {finetuning}.{features} "
        f"Examples to learn from and to evaluate on: {examples}. {result['date']}; {machine}; {versions}.\n"
    )


if __name__ == "__main__":
    results = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
