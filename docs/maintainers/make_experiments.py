"""Writes results/*.json into docs/results.md and the cards of kbert's own models.

    PYTHONPATH=.:recipes python docs/maintainers/make_experiments.py

The page receives a table of what these models reach, and a section for each of the paper's tables that was run;
saved_models/NAME/README.md the table of results/finetuning-NAME.json.
"""

import argparse
import pathlib

from experiments.paper_tables import TABLES, paper_table
from experiments.report import (
    SEEN,
    comparison_table,
    describe_examples,
    describe_options,
    describe_versions,
    result_table,
)

from kbert.files import read_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RESULTS, MODELS = ROOT / "docs/results.md", ROOT / "results", ROOT / "saved_models"
OWN = ("kbert-tiny", "kbert-mini")
COMPARED, AFTER = "## Fine-tuned, compared with random weights\n\n", "\n## Limits\n"  # of a card


def with_results(page: str, results: pathlib.Path) -> str:
    """The page with what kbert's own models reach, and a section for each table of the paper."""
    told: dict[str, str] = {}  # settings → the title of the section that has them
    sections = [_section(results / f"{name}.json", told) for name in TABLES if (results / f"{name}.json").is_file()]
    page = _between(page, "<!-- own models -->\n\n", "\n<!-- end of own models -->\n", _own_models(results))
    text = "\n".join(sections or ["No results.\n"])
    return _between(page, "<!-- results -->\n\n", "\n<!-- end of results -->\n", text)


def with_comparison(card: str, result: dict) -> str:
    """The card of a model with its results, as docs/maintainers/make_shipped_model.py writes them."""
    return _between(card, COMPARED, AFTER, comparison_table(result))


def _between(page, begin, end, text):
    """The page with this text instead of what stands between two marks."""
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end, 1)[1]


def _own_models(results):
    """A table: what kbert's own models reach on held-out text, and whether they are ahead of random weights."""
    lines = ["| | masked-LM accuracy | next-sentence accuracy | ahead of random weights | not ahead |"]
    lines.append("|---" * 5 + "|")
    for name in OWN:
        if not (path := results / f"finetuning-{name}.json").is_file():
            continue
        row, ahead, others = read_json(path)["rows"][0], [], []
        for column, one in row["verdicts"].items():
            gain = f"{column} {one['difference']:+.1f}"
            if one["word"] == SEEN:
                ahead.append(gain)
            else:
                others.append(f"{gain} ({one['word']})")
        held_out = read_json(results / f"held-out-{name}.json")
        scores = [f"{100 * held_out[score]:.1f} %" for score in ("mlm_accuracy", "nsp_accuracy")]
        gains = [", ".join(each) or "–" for each in (ahead, others)]
        lines.append("| " + " | ".join([name, *scores, *gains]) + " |")
    return "\n".join(lines) + "\n"


def _section(path, told):
    result = read_json(path)
    table, settings = paper_table(path.stem), result["settings"]
    own = set.intersection(*(set(row.pretraining) for row in table.rows))  # such as the size in table 6
    pretraining = describe_options({name: value for name, value in settings["pretraining"].items() if name not in own})
    rates = f"learning rate{'s' if len(settings['learning_rates']) > 1 else ''} {_numbers(settings['learning_rates'])}"
    minutes = [row["pretrained"]["minutes"] for row in result["rows"] if row["pretrained"]]
    minutes = dict.fromkeys(f"{each:,.0f}" for each in (min(minutes), max(minutes)))
    finetuning = f"seeds {_numbers(settings['seeds'])}, {rates}, {_given(settings['finetuning'])}"
    parts = [
        ("Pre-trainings", pretraining),
        ("Fine-tunings", finetuning),
        ("Taggers on features", _given(settings["feature_training"]) if _has_features(table, result) else ""),
        ("Examples for training and dev", describe_examples(result)),
    ]
    title = result["title"].split(":")[0]
    return f"{_head(result, path)}{_once(parts, title, told)}{_minutes(minutes)} each. {_made(result, told)}\n"


def _has_features(table, result):
    """Whether some figure of a result is of a tagger on features: not every run has those columns."""
    columns = {f"NER {mode}" for mode in table.feature_columns}
    return any(row.feature_mode for row in table.rows) or bool(columns & set(result["columns"]))


def _minutes(numbers):
    return f"{' to '.join(numbers)} minute{'' if list(numbers) == ['1'] else 's'}"


def _once(parts, title, told):
    """The settings that no section above has, and the title of the section that has the others."""
    new = "".join(f"{name}: {text}. " for name, text in parts if text and told.setdefault(name + text, title) == title)
    others = dict.fromkeys(told[name + text] for name, text in parts if text and told[name + text] != title)
    return f"{new}{'Other settings as for' if new else 'Settings as for'} {' and '.join(others)}. " if others else new


def _numbers(values):
    return ", ".join(f"{value:g}" for value in values)


def _given(options):
    """Options in words, without those that were not given."""
    return describe_options({name: value for name, value in options.items() if value is not None})


def _head(result, path):
    plot = f"![Plot of these scores](../results/{path.stem}.svg)\n\n" if path.with_suffix(".svg").is_file() else ""
    return f"### {result['title']}\n\n{result_table(result)}\n{plot}"


def _made(result, told):
    """The date; with the first result, and where they differ, also processor and versions."""
    machine = describe_versions(result)
    if told.get("machine") == machine:
        return f"{result['date']}."
    told["machine"] = machine
    return f"{result['date']}; {machine}."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=pathlib.Path, default=RESULTS, help="directory (default: results/)")
    args = parser.parse_args()
    if not args.results.is_dir():
        parser.error(f"no such directory: {args.results}")
    PAGE.write_text(with_results(PAGE.read_text(encoding="utf-8"), args.results), encoding="utf-8")
    for path in args.results.glob("finetuning-*.json"):
        card = MODELS / path.stem.removeprefix("finetuning-") / "README.md"
        if card.is_file():
            card.write_text(with_comparison(card.read_text(encoding="utf-8"), read_json(path)), encoding="utf-8")
