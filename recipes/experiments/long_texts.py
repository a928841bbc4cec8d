"""Long texts: which author wrote a passage of about 600 words? The opening alone, or windows over all of it.

    python recipes/experiments/long_texts.py 'novels/*.tar.gz' --output runs/long-texts

The novels are text files, or archives of them, whose names begin with the author and an underscore. For every author
with at least three novels, passages of the last one (by name) are for evaluation, those of the others for training.
Writes train.csv, test.csv and scores.json to `--output` (a killed script resumes), and long-texts.json.
"""

import argparse
import collections
import csv
import pathlib

from experiment import Column, Scores, provenance, summary

import kbert
from kbert.corpus.corpus_files import find_files, open_texts
from kbert.files import write_json

WORDS, PASSAGES = 600, 6  # of a passage, at least; of a novel
SEEDS = (0, 1, 2)
FINETUNING = {"learning_rate": 3e-4, "batch_size": 32, "sequence_length": 128, "dropout": 0.0}
ROWS = {  # options of the task, epochs. A text has several windows, so beginnings get fewer updates per epoch
    "beginnings": ({}, 4),
    "beginnings, longer training": ({}, 24),
    "windows, `mean`": ({"window_pooling": "mean"}, 4),
    "windows, `max`": ({"window_pooling": "max"}, 4),
    "windows with a stride of 64, `mean`": ({"window_pooling": "mean", "doc_stride": 64}, 4),
}


def main(novels, source, output, results):
    write_passages(novels, output)
    scores = Scores(output / "scores.json")
    rows = []
    for name, (windows, epochs) in ROWS.items():
        task = kbert.tasks.Classification(text="text", label="author", **windows)
        train, test = (task.read(output / f"{part}.csv") for part in ("train", "test"))
        column = Column(name, task, train, test, "accuracy")
        options = FINETUNING | {"epochs": epochs, "keep": "last", "evaluate_every": None}
        values = [scores.score(str(source), source, column, seed=seed, **options) for seed in SEEDS]
        rows.append({"name": name, "task": windows, "epochs": epochs, "accuracy": summary(values)})
        print(f"{name}: {rows[-1]['accuracy']['mean']:.1f} %, seeds {values}")
    settings = {"init": pathlib.Path(source).name, "seeds": SEEDS, "options": FINETUNING, "train": len(train)}
    settings |= {"labels": len(train.label_names), "test": len(test)}
    result = {"rows": rows, "constant": scores.entries[-1]["baseline"], "settings": settings}
    results.mkdir(parents=True, exist_ok=True)
    write_json(results / "long-texts.json", result | provenance())


def write_passages(patterns, output):
    """Writes train.csv and test.csv with the columns author, novel and text."""
    novels = collections.defaultdict(dict)
    for path in find_files(patterns):
        for name, lines in open_texts(path):
            name = pathlib.PurePath(name.rsplit(":", 1)[-1]).stem
            novels[name.split("_")[0]][name] = passages(lines)
    rows = {"train": [], "test": []}
    for author, own in sorted(novels.items()):
        names = sorted(own)
        for name in names if len(names) >= 3 else ():
            part = "test" if name == names[-1] else "train"
            rows[part] += [(author, name, text) for text in own[name]]
    output.mkdir(parents=True, exist_ok=True)
    for part, found in rows.items():
        with open(output / f"{part}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([("author", "novel", "text"), *found])


def passages(lines):
    """Passages of whole paragraphs, spread over a novel without its first and last one."""
    found, paragraphs, count = [], [], 0
    for line in lines:
        paragraphs.append(line.strip())
        count += len(line.split())
        if count >= WORDS:
            found.append(" ".join(filter(None, paragraphs)))
            paragraphs, count = [], 0
    inner = found[1:-1]
    return [inner[n * len(inner) // PASSAGES] for n in range(PASSAGES)] if len(inner) >= PASSAGES else inner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("novels", nargs="+", help="patterns of text files or archives of them")
    parser.add_argument("--source", default="saved_models/kbert-tiny", help="the model to start from")
    parser.add_argument("--output", type=pathlib.Path, default="runs/long-texts")
    parser.add_argument("--results", type=pathlib.Path, default="results")
    kbert.log_to_console()
    main(**vars(parser.parse_args()))
