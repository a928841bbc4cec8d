"""A model directory small enough to fine-tune in a second, and tables that it can learn."""

import csv

GOOD, BAD = ("good", "fine", "bright", "kind"), ("bad", "dull", "grim", "mean")
NOUNS = ("film", "book", "song", "play", "tale")
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "very", "un", "##ly", ".", *GOOD, *BAD, *NOUNS]
_MADE = {}  # arguments of `write_tiny_directory` → its files, by their names


def write_tiny_directory(path, task="pretraining", dropout=0.1, **model_arguments):
    """Saves a randomly initialised model of the task, hidden size 15, and returns the path; the same model each time.

    It is built once in a process, and copied from then on.
    """
    key = task, dropout, *model_arguments.items()
    if key in _MADE:
        path.mkdir(parents=True, exist_ok=True)
        for name, content in _MADE[key].items():
            (path / name).write_bytes(content)
    else:
        _save_model(path, task, dropout, model_arguments)
        _MADE[key] = {file.name: file.read_bytes() for file in path.iterdir()}
    return path


def _save_model(path, task, dropout, model_arguments):
    import keras

    from kbert import BertClassifier, BertConfig, BertPretrainer, BertTokenizer, save_pretrained

    keras.utils.set_random_seed(5)
    config = BertConfig(
        vocabulary_size=len(VOCABULARY),
        num_layers=1,
        hidden_dim=15,
        num_heads=3,
        intermediate_dim=22,
        max_sequence_length=16,
        hidden_dropout=dropout,
        attention_dropout=dropout,
        initializer_stddev=0.2,
    )
    model = {"pretraining": BertPretrainer, "classification": BertClassifier}[task](config, **model_arguments)
    save_pretrained(model, path, tokenizer=BertTokenizer(VOCABULARY))


def sentences(count, start=0):
    """(text, "good" or "bad") that a word decides."""
    rows = []
    for n in range(start, start + count):
        word, label = (GOOD[n % 4], "good") if n % 3 else (BAD[n % 4], "bad")
        rows.append((f"the {word} {NOUNS[n % 5]} .", label))
    return rows


def write_table(path, rows, header=("text", "label")):
    """Writes a .csv, or a .tsv without quoting, and returns the path."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            csv.writer(file).writerows([header, *rows])
        else:
            file.writelines("\t".join(map(str, row)) + "\n" for row in [header, *rows])
    return path
