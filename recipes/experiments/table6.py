"""Table 6 of the paper (section 5.2): the size of the model.

    python recipes/experiments/table6.py records --data data --output runs/tables

One pre-training per size. Larger models than tiny need a lower learning rate than the 1e-3 of "small-budget", which is
unstable for mini.
"""

from experiment import Scores, held_out_scores, pretrained, read_columns, read_places, write_table

from kbert import BertConfig

COLUMNS = ("MRPC", "SST-2")
SIZES = ("tiny", "mini", "small")
LEARNING_RATE = 5e-4  # of every pre-training
PAPER = {  # layers/hidden size/heads → the paper's scores on dev
    "3/768/12": {"masked-LM perplexity": 5.84, "MNLI": 77.9, "MRPC": 79.8, "SST-2": 88.4},
    "6/768/3": {"masked-LM perplexity": 5.24, "MNLI": 80.6, "MRPC": 82.2, "SST-2": 90.7},
    "6/768/12": {"masked-LM perplexity": 4.68, "MNLI": 81.9, "MRPC": 84.8, "SST-2": 91.3},
    "12/768/12": {"masked-LM perplexity": 3.99, "MNLI": 84.4, "MRPC": 86.7, "SST-2": 92.9},
    "12/1024/16": {"masked-LM perplexity": 3.54, "MNLI": 85.7, "MRPC": 86.9, "SST-2": 93.3},
    "24/1024/16": {"masked-LM perplexity": 3.23, "MNLI": 86.6, "MRPC": 87.8, "SST-2": 93.7},
}


def main(records, data, output, results):
    columns = read_columns(data, COLUMNS)
    scores = Scores(output / "scores.json")
    rows = []
    for size in SIZES:
        config = BertConfig.from_size(size)
        name = f"{size} ({config.num_layers}/{config.hidden_dim}/{config.num_heads})"
        run = pretrained(records, output, f"size {size}", size=size, learning_rate=LEARNING_RATE)
        rows.append(scores.row(name, run.name, run, columns, held_out_scores(run)))
    rows.append(scores.baseline(columns))
    title = "Table 6: the size of the model (layers/hidden size/heads)"
    write_table(results, "table6", title, columns, rows, paper_rows=PAPER)


if __name__ == "__main__":
    main(**read_places(__doc__))
