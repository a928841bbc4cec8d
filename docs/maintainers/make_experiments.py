"""Writes results/*.json into docs/results.md and the cards of kbert's own models.

    PYTHONPATH=.:recipes python docs/maintainers/make_experiments.py

The page receives a table of what these models reach, and a section for each result; saved_models/NAME/README.md the
table of results/finetuning-NAME.json.
"""

import argparse
import pathlib

from experiments.compare_finetuning import RANDOM
from experiments.paper_tables import TABLES, paper_table
from experiments.report import SEEN, describe_options, result_table

from kbert.files import read_json

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RESULTS, MODELS = ROOT / "docs/results.md", ROOT / "results", ROOT / "saved_models"
TASKS = {  # on which they should be ahead of random weights
    "kbert-tiny": ("SST-2", "MRPC", "STS-B", "NER", "SQuAD"),
    "kbert-mini": ("SST-2", "MRPC", "STS-B", "CoLA", "NER", "SQuAD"),
}
COMPARED, AFTER = "## Fine-tuned, compared with random weights\n\n", "\n## Limits\n"  # of a card


def with_results(page: str, results: pathlib.Path) -> str:
    """The page with what kbert's own models reach, and a section for each comparison and each table of the paper."""
    sections = [_comparison(path) for path in sorted(results.glob("finetuning-*.json"))]
    told: dict[str, str] = {}  # settings → the title of the section that has them
    sections += [_section(results / f"{name}.json", told) for name in TABLES if (results / f"{name}.json").is_file()]
    page = _between(page, "<!-- own models -->\n\n", "\n<!-- end of own models -->\n", _own_models(results))
    text = "\n".join(sections or ["No results.\n"])
    return _between(page, "<!-- results -->\n\n", "\n<!-- end of results -->\n", text)


def with_comparison(card: str, result: dict) -> str:
    """The card of a model with its results, as docs/maintainers/make_shipped_model.py writes them."""
    return _between(card, COMPARED, AFTER, result_table(result))


def _between(page, begin, end, text):
    """The page with this text instead of what stands between two marks."""
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end, 1)[1]


def _own_models(results):
    """A table: what kbert's own models reach on held-out text, and whether they are ahead of random weights."""
    lines = ["| | masked-LM accuracy | next-sentence accuracy | ahead of random weights | not ahead | not measured |"]
    lines.append("|---" * 6 + "|")
    for name in TASKS:
        if not (path := results / f"finetuning-{name}.json").is_file():
            continue
        row, ahead, others = read_json(path)["rows"][0], [], []
        missing = [task for task in TASKS[name] if task not in row["verdicts"]]
        for column, one in row["verdicts"].items():
            gain = f"{column} {one['difference']:+.1f}"
            if one["word"] == SEEN:
                ahead.append(gain)
            else:
                others.append(f"{gain} ({one['word']})")
        held_out = read_json(results / f"held-out-{name}.json")
        scores = [f"{100 * held_out[score]:.1f} %" for score in ("mlm_accuracy", "nsp_accuracy")]
        gains = [", ".join(each) or "–" for each in (ahead, others, missing)]
        lines.append("| " + " | ".join([name, *scores, *gains]) + " |")
    return "\n".join(lines) + "\n"


def _section(path, told):
    result = read_json(path)
    table, settings = paper_table(path.stem), result["settings"]
    own = set.intersection(*(set(row.pretraining) for row in table.rows))  # such as the size in table 6
    pretraining = describe_options({name: value for name, value in settings["pretraining"].items() if name not in own})
    features = f" Taggers on features: {_given(settings['feature_training'])}." if table.has_features else ""
    rates = f"learning rate{'s' if len(settings['learning_rates']) > 1 else ''} {_numbers(settings['learning_rates'])}"
    minutes = [row["pretrained"]["minutes"] for row in result["rows"] if row["pretrained"]]
    minutes = dict.fromkeys(f"{one:,.0f}" for one in (min(minutes), max(minutes)))
    finetuning = f"seeds {_numbers(settings['seeds'])}; {rates}; {_given(settings['finetuning'])}"
    title = result["title"].split(":")[0]
    return (
        f"{_head(result, path)}{_random_weights(result, path)}"
        f"Pre-trainings: {_once(pretraining, title, told)}; {' to '.join(minutes)} minutes each. "
        f"Fine-tunings: {_once(finetuning, title, told)}.{features} "
        f"Examples to learn from and to evaluate on: {_examples(result)}. {_made(result)}.\n"
    )


def _once(text, title, told):
    """The settings, or where they are told already."""
    first = told.setdefault(text, title)
    return text if first == title else f"as for {first}"


def _random_weights(result, path):
    """What random weights of the architecture reach with the same fine-tunings, where they were measured."""
    other = path.with_name("pretraining.json")
    if path == other or not other.is_file():
        return ""
    settings, others = result["settings"], read_json(other)
    same = ("finetuning", "seeds", "learning_rates")
    if any(settings[name] != others["settings"][name] for name in same):
        return ""
    if settings["pretraining"].get("size") != others["settings"]["pretraining"].get("size"):
        return ""
    [random] = [row["scores"] for row in others["rows"] if row["name"] == RANDOM]
    columns = [
        name for name, count in settings["examples"].items() if others["settings"]["examples"].get(name) == count
    ]
    figures = [f"{name} {random[name]['mean']:.1f} ± {random[name]['deviation']:.1f}" for name in columns]
    return f"Random weights, with the same fine-tunings: {', '.join(figures)}.\n\n" if figures else ""


def _numbers(values):
    return ", ".join(f"{value:g}" for value in values)


def _given(options):
    """Options in words, without those that were not given."""
    return describe_options({name: value for name, value in options.items() if value is not None})


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
    for path in args.results.glob("finetuning-*.json"):
        card = MODELS / path.stem.removeprefix("finetuning-") / "README.md"
        if card.is_file():
            card.write_text(with_comparison(card.read_text(encoding="utf-8"), read_json(path)), encoding="utf-8")
