"""Figure 5 of the paper (appendix C.1): the number of pre-training steps, masked LM and left-to-right.

    python recipes/experiments/figure5.py records --data data --output runs/tables

The points are checkpoints of two runs, so the learning rate falls to 0 only at the last ones, as in the paper. Writes
figure5.json and figure5.svg.
"""

import experiment
from experiment import Scores, held_out_scores, pretrained, read_columns, read_places, write_table
from matplotlib.figure import Figure

COLUMNS = ("NER",)
ROWS = {"MLM": ("BERT", {}), "LTR": ("LTR & No NSP", {"next_sentence": False, "left_to_right": True})}


def main(records, data, output, results):
    columns = read_columns(data, COLUMNS)
    scores = Scores(output / "scores.json")
    steps, every = experiment.PRETRAINING["steps"], experiment.PRETRAINING["keep_every"]
    rows = []
    for series, (name, options) in ROWS.items():
        run = pretrained(records, output, name, **options)
        for step in range(every, steps + 1, every):
            made = held_out_scores(run, step) | options
            source, model = (run, run.name) if step == steps else (at_step(run, step), f"{run.name}@{step}")
            title = f"{series} after {100 * step // steps} % of the steps"
            rows.append(scores.row(title, model, source, columns, made) | {"series": series})
    result = write_table(results, "figure5", "Figure 5: the number of steps", columns, rows)
    draw(result).savefig(results / "figure5.svg")


def at_step(run, step):
    """A model during a run: a checkpoint of `kbert.pretrain`, or a directory of pretrain_on_gpu.py."""
    own = run / f"model@{step}"
    return own if own.exists() else f"{run}@{step}"


def draw(result):
    """A curve for each series."""
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    axes = figure.subplots()
    (column,) = result["columns"]
    for series in ROWS:
        points = [row for row in result["rows"] if row["series"] == series]
        means = [row["scores"][column]["mean"] for row in points]
        deviations = [row["scores"][column]["deviation"] or 0.0 for row in points]
        steps = [row["pretrained"]["steps"] for row in points]
        axes.errorbar(steps, means, yerr=deviations, marker="o", capsize=3, label=series)
    axes.set(xlabel="pre-training steps", ylabel=column)
    axes.legend()
    return figure


if __name__ == "__main__":
    main(**read_places(__doc__))
