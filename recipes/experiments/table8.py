"""Table 8 of the paper (appendix C.2): what masked tokens become.

    PYTHONPATH=recipes python recipes/experiments/table8.py records --data data --output runs/tables

One pre-training per mixture of [MASK], the token itself and a random token; fine-tuned, and with the taggers of
features_bilstm.py. Held-out scores are on a row's own masks. Kept tokens are easy to predict, so do not compare
perplexities and accuracies.
"""

import experiment
from experiment import Scores, held_out_scores, pretrained, read_columns, read_places, summary, write_table
from table7 import tagger_scores

from kbert.pretraining import Masking

FEATURES = "concat-last-four"
COLUMNS = ("NER", "SST-2")
RATES = ("mask_token_rate", "keep_rate", "random_token_rate")
PAPER = {  # percentages of [MASK], same and random → the paper's scores on dev
    (80, 10, 10): {"MNLI": 84.2, "NER": 95.4, "NER concat-last-four": 94.9},
    (100, 0, 0): {"MNLI": 84.3, "NER": 94.9, "NER concat-last-four": 94.0},
    (80, 0, 20): {"MNLI": 84.1, "NER": 95.2, "NER concat-last-four": 94.6},
    (80, 20, 0): {"MNLI": 84.4, "NER": 95.2, "NER concat-last-four": 94.7},
    (0, 20, 80): {"MNLI": 83.7, "NER": 94.8, "NER concat-last-four": 94.6},
    (0, 0, 100): {"MNLI": 83.6, "NER": 94.9, "NER concat-last-four": 94.6},
}


def main(records, data, output, results):
    columns = read_columns(data, COLUMNS)
    scores = Scores(output / "scores.json")
    bert = pretrained(records, output, "BERT")  # 80/10/10
    rows = []
    for mixture, paper in PAPER.items():
        name = "/".join(map(str, mixture))
        rates = dict(zip(RATES, (percent / 100 for percent in mixture), strict=True))
        run = bert if mixture == (80, 10, 10) else pretrained(records, output, name, masking=Masking(**rates))
        row = scores.row(name, run.name, run, columns, held_out_scores(run), paper)
        folder = output / "table8-features" / run.name
        found = [tagger_scores(data, run, folder / str(seed), [FEATURES], seed) for seed in experiment.SEEDS]
        row["scores"][f"NER {FEATURES}"] = summary([one[FEATURES] for one in found])
        rows.append(row)
    rows.append(scores.row("random weights", "random", bert, columns, random_weights=True))
    rows.append(scores.baseline(columns))
    title = "Table 8: what masked tokens become, in percent: [MASK], themselves, random tokens"
    with_features = columns[0]._replace(name=f"NER {FEATURES}")
    write_table(results, "table8", title, [*columns, with_features], rows)


if __name__ == "__main__":
    main(**read_places(__doc__))
