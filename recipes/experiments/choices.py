"""Choices of pre-training that the paper does not compare: random weights, masks, next sentences, positions.

    python recipes/experiments/choices.py records --data data --output runs/tables

Writes pretraining.json, masking.json, next-sentence.json and positions.json, each with BERT as its first row.
"""

from experiment import Scores, flat, held_out_scores, pretrained, read_columns, read_places, write_table

from kbert.pretraining import Masking, NewModel

COLUMNS = ("STS-B", "NER")
TABLES = {  # file → title and rows besides BERT
    "pretraining": ("Pre-training, and random weights of its architecture", {"random weights": None}),
    "masking": (
        "What is masked, and how often anew",
        {
            "whole words": {"whole_word": True},
            "mask rate 30 %": {"mask_rate": 0.3},
            "the same masks in every epoch": {"masking": Masking(dupe_factor=1)},
            "10 different masks": {"masking": Masking(dupe_factor=10)},  # of no effect in fewer epochs
        },
    ),
    "next-sentence": (
        "How many next sentences are random",
        {
            "25 % random": {"random_next_rate": 0.25},
            "75 % random": {"random_next_rate": 0.75},
            "No NSP": {"next_sentence": False},
        },
    ),
    "positions": (
        "Learned positions, and the Transformer's sines",
        {"sinusoidal": {"new_model": NewModel(position_embedding="sinusoidal", initializer_stddev="scaled")}},
    ),
}


def main(records, data, output, results):
    columns = read_columns(data, COLUMNS)
    scores = Scores(output / "scores.json")
    bert = pretrained(records, output, "BERT")
    for file, (title, others) in TABLES.items():
        rows = [scores.row("BERT", bert.name, bert, columns, held_out_scores(bert))]
        for name, options in others.items():
            if options is None:
                rows.append(scores.row(name, "random", bert, columns, random_weights=True))
            else:
                run = pretrained(records, output, name, **options)
                rows.append(scores.row(name, run.name, run, columns, held_out_scores(run) | flat(options)))
        write_table(results, file, title, columns, [*rows, scores.baseline(columns)])


if __name__ == "__main__":
    main(**read_places(__doc__))
