"""Measures what windows contribute on long texts, and writes the table of docs/long-texts.md.

    PYTHONPATH=.:recipes python docs/maintainers/make_long_texts.py --novels 'novels/*.tar.gz' --passages 6
    PYTHONPATH=.:recipes python docs/maintainers/make_long_texts.py --page-only

The task: which author wrote a passage of about 600 words? --novels are text files, or archives of them, whose names
begin with the author and an underscore. Of every author with three novels or more, passages of the last one (in the
order of the names) are for evaluation and those of the others for training. --output receives train.csv and test.csv,
and a small file for each fine-tuning: a killed command resumes. results/long-texts.json has the scores.
"""

import argparse
import collections
import csv
import pathlib
import statistics

from experiments.cells import Cells, model_name
from experiments.downstream import Downstream
from experiments.processor_name import processor_name
from experiments.report import judge, summary, when_and_with_what

from kbert.corpus.corpus_files import find_files, open_texts
from kbert.files import atomic_file, read_json, write_json
from kbert.tasks import Classification
from kbert.training.console import log_to_console

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, RESULT = ROOT / "docs/long-texts.md", ROOT / "results/long-texts.json"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->\n"
LENGTH = 128  # tokens of a row
CUT = "beginnings"
# Row: options of the task, epochs. A text has several windows, so that beginnings get fewer updates in as many epochs.
ROWS = {
    CUT: ({}, 4),
    "beginnings, longer training": ({}, 24),
    "windows, `mean`": ({"window_pooling": "mean"}, 4),
    "windows, `max`": ({"window_pooling": "max"}, 4),
    "windows with a stride of 64, `mean`": ({"window_pooling": "mean", "doc_stride": 64}, 4),
}


def passages(lines, words: int, number: int) -> list[str]:
    """Passages of whole paragraphs with at least so many words, spread over a novel without its first and last one."""
    found, paragraphs, count = [], [], 0
    for line in lines:
        paragraphs.append(line.strip())
        count += len(line.split())
        if count >= words:
            found.append(" ".join(filter(None, paragraphs)))
            paragraphs, count = [], 0
    inner = found[1:-1]
    return [inner[n * len(inner) // number] for n in range(number)] if len(inner) >= number else inner


def write_passages(patterns, output: pathlib.Path, words: int, number: int) -> None:
    """Writes train.csv and test.csv with the columns author, novel and text."""
    novels = collections.defaultdict(dict)
    for path in find_files(patterns):
        for name, lines in open_texts(path):
            name = pathlib.PurePath(name.rsplit(":", 1)[-1]).stem
            novels[name.split("_")[0]][name] = passages(lines, words, number)
    rows = {"train": [], "test": []}
    for author, ones in sorted(novels.items()):
        names = sorted(ones)
        for name in names if len(names) >= 3 else ():
            part = rows["test" if name == names[-1] else "train"]
            part += [(author, name, text) for text in ones[name]]
    output.mkdir(parents=True, exist_ok=True)
    for name, part in rows.items():
        if not part:
            raise ValueError(f"Expected authors with at least three novels. Received: {sorted(novels)}")
        with atomic_file(output / f"{name}.csv") as file:
            csv.writer(file, lineterminator="\n").writerows([("author", "novel", "text"), *part])


def measure(init, output: pathlib.Path, seeds, rows=ROWS, **options) -> dict:
    """The scores of all rows; `options` are those of `kbert.finetune`."""
    cells, found = Cells(output / "cells", "make_long_texts.py"), []
    for name, (of_task, epochs) in rows.items():
        task = Classification(text="text", label="author", **of_task)
        train, test = (task.read(output / f"{part}.csv") for part in ("train", "test"))
        column = Downstream(name="authors", task=task, train=train, dev=test, metric="accuracy")
        own = options | {"epochs": epochs, "keep": "last", "evaluate_every": None}
        ones = [cells.score(init, column, own | {"seed": seed}) for seed in seeds]
        row = {"name": name, "task": of_task, "epochs": epochs, "steps": ones[0]["steps"]}
        row["minutes"] = statistics.mean(one["minutes"] for one in ones)
        row |= {"accuracy": summary([one["percent"] for one in ones])}
        row["verdict"] = judge(row["accuracy"]["values"], (found or [row])[0]["accuracy"]["values"]).word
        found.append(row)
    processor, cores = processor_name()
    settings = {"init": model_name(init), "seeds": list(seeds), "options": options, "labels": len(train.label_names)}
    settings |= {"words": round(statistics.mean(len(text.split()) for text in test.texts)), "processor": processor}
    settings |= {"train": len(train), "test": len(test), "cores": cores}
    constant = column.percent(ones[0]["constant_answer"])
    return {"rows": found, "constant": constant, "settings": settings, **when_and_with_what(cells.used.values())}


def table(result: dict) -> str:
    """Markdown."""
    lines = ["| read | epochs | updates | accuracy | against beginnings |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        score, verdict = row["accuracy"], "" if row["name"] == CUT else row["verdict"]
        score = f"{score['mean']:.1f}" + ("" if score["deviation"] is None else f" ± {score['deviation']:.1f}")
        lines.append(f"| {row['name']} | {row['epochs']} | {row['steps']:,} | {score} % | {verdict} |")
    settings, versions = result["settings"], ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    options = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings["options"].items())
    lines += [
        "",
        f"{settings['init']}, {settings['labels']} authors, {settings['train']:,} passages to learn from and "
        f"{settings['test']:,} of other novels to evaluate on, {settings['words']} words each on average; seeds "
        f"{settings['seeds']}, {options}. The most frequent author: {result['constant']:.1f} %. {result['date']}; "
        f"{settings['processor']}, {settings['cores']} cores; {versions}.",
    ]
    return "\n".join(lines) + "\n"


def with_result(page: str, result: dict) -> str:
    """The page with this table."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table(result)}\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, number = parser.add_argument, {"type": int, "metavar": "N"}
    add("--novels", nargs="+", metavar="GLOB", help="text files or archives of them")
    add("--init", default="saved_models/kbert-tiny", metavar="SOURCE", help="the model to start from")
    add("--output", default=ROOT / "runs/long-texts", type=pathlib.Path, metavar="DIR", help="for passages and scores")
    add("--words", default=600, help="of a passage, at least (default: 600)", **number)
    add("--passages", default=20, help="of a novel (default: 20)", **number)
    add("--restarts", default=3, help="number of seeds (default: 3)", **number)
    add("--page-only", action="store_true", help="write the page again, from results/long-texts.json")
    args = parser.parse_args()
    if not args.page_only:
        if not args.novels:
            parser.error("expected --novels or --page-only. Received: neither")
        log_to_console()
        write_passages(args.novels, args.output, args.words, args.passages)
        options = {"learning_rate": 3e-4, "batch_size": 32, "sequence_length": LENGTH, "dropout": 0.0}
        RESULT.parent.mkdir(exist_ok=True)
        write_json(RESULT, measure(args.init, args.output, range(args.restarts), **options))
    PAGE.write_text(with_result(PAGE.read_text(encoding="utf-8"), read_json(RESULT)), encoding="utf-8")


if __name__ == "__main__":
    main()
