"""Table 5 of the paper (section 5.1): without next sentences, left to right, and with a BiLSTM on top.

    python recipes/experiments/table5.py records --data data --output runs/tables

Three pre-trainings. Each row is fine-tuned on each task with every learning rate and seed (experiment.py). "LTR"
attends to the left only, also in fine-tuning. "+ BiLSTM" adds a new BiLSTM, as wide as the model, before the head.
"""

import functools

from bilstm_encoder import bilstm_encoder
from experiment import Scores, held_out_scores, pretrained, read_columns, read_places, write_table

COLUMNS = ("NER", "SST-2", "STS-B", "MRPC")
LEFT_TO_RIGHT = {"next_sentence": False, "left_to_right": True}
ROWS = {"BERT": {}, "No NSP": {"next_sentence": False}, "LTR & No NSP": LEFT_TO_RIGHT}
BILSTM = "+ BiLSTM"
PAPER = {  # on dev
    "BERT": {"MNLI": 84.4, "QNLI": 88.4, "MRPC": 86.7, "SST-2": 92.7, "SQuAD": 88.5},
    "No NSP": {"MNLI": 83.9, "QNLI": 84.9, "MRPC": 86.5, "SST-2": 92.6, "SQuAD": 87.9},
    "LTR & No NSP": {"MNLI": 82.1, "QNLI": 84.3, "MRPC": 77.5, "SST-2": 92.1, "SQuAD": 77.8},
    BILSTM: {"MNLI": 82.1, "QNLI": 84.1, "MRPC": 75.7, "SST-2": 91.6, "SQuAD": 84.9},
}


def main(records, data, output, results):
    columns = read_columns(data, COLUMNS)
    scores = Scores(output / "scores.json")
    runs = {name: pretrained(records, output, name, **options) for name, options in ROWS.items()}
    rows = []
    for name, run in runs.items():
        made = held_out_scores(run) | ROWS[name]
        rows.append(scores.row(name, run.name, run, columns, made, PAPER[name]))
    with_bilstm = functools.partial(bilstm_encoder, run)
    rows.append(scores.row(BILSTM, f"{run.name} + BiLSTM", with_bilstm, columns, made, PAPER[BILSTM]))
    rows.append(scores.row("random weights", "random", runs["BERT"], columns, random_weights=True))
    rows.append(scores.baseline(columns))
    write_table(results, "table5", "Table 5: the pre-training tasks", columns, rows)


if __name__ == "__main__":
    main(**read_places(__doc__))
