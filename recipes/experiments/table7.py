"""Table 7 of the paper (section 5.3): named entities, fine-tuned and on the features of a frozen encoder.

    PYTHONPATH=recipes python recipes/experiments/table7.py records --data data --output runs/tables

The first row is fine-tuned; the others are the taggers of features_bilstm.py, which are scored at their last step.
"""

import experiment
from experiment import Scores, held_out_scores, pretrained, read_columns, read_places, summary, write_table
from features_bilstm import ROWS, features_bilstm

from kbert.files import read_json

TAGGERS = {"units": 128, "epochs": 3}
FINE_TUNED = 96.4  # the paper's score


def main(records, data, output, results):
    columns = read_columns(data, ["NER"])
    scores = Scores(output / "scores.json")
    run = pretrained(records, output, "BERT")
    made = held_out_scores(run)
    rows = [scores.row("fine-tuned", run.name, run, columns, made, {"NER": FINE_TUNED})]
    folder = output / "table7-features"
    found = [tagger_scores(data, run, folder / str(seed), ROWS, seed) for seed in experiment.SEEDS]
    for name, (paper, _) in ROWS.items():
        score = {"NER": summary([one[name] for one in found])}
        rows.append({"name": name, "pretrained": made, "scores": score, "paper": {"NER": paper}})
    title = "Table 7: named entities, fine-tuned and on the features of a frozen encoder"
    write_table(results, "table7", title, columns, [*rows, scores.baseline(columns)], taggers=TAGGERS)


def tagger_scores(data, run, output, rows, seed):
    """F1 of taggers on some kinds of features, which are trained once."""
    if not (output / "scores.json").exists():
        files = {"train": data / "conll2003/eng.train", "dev": data / "conll2003/eng.testa"}
        options = {"sentences": experiment.EXAMPLES["NER"], "seed": seed, **TAGGERS}
        features_bilstm(**files, source=run, output=output, rows=list(rows), **options)
    return read_json(output / "scores.json")


if __name__ == "__main__":
    main(**read_places(__doc__))
