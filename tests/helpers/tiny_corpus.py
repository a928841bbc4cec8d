"""A small corpus of made-up words: documents of many sizes, and a tokenizer that knows every word."""

import random

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *LETTERS, *(f"##{c}" for c in LETTERS)]


def make_documents(number, seed=0, sizes=(1, 2, 3, 7, 19), words=(1, 2, 5, 11)):
    """`number` documents: lists of sentences such as "ab c def .", of one to four letters a word."""
    rng = random.Random(seed)

    def sentence():
        return " ".join("".join(rng.choices(LETTERS, k=rng.randint(1, 4))) for _ in range(rng.choice(words))) + " ."

    return [[sentence() for _ in range(rng.choice(sizes))] for _ in range(number)]


def write_lines(path, documents):
    """Documents as the original's input: one sentence a line, an empty line between documents."""
    path.write_text("\n\n".join("\n".join(sentences) for sentences in documents) + "\n", encoding="utf-8")
    return path


def make_tokenizer():
    from kbert.text.tokenizer import BertTokenizer

    return BertTokenizer(VOCABULARY)


def make_pretrainer(max_sequence_length, seed=3, **fields):
    """A `BertPretrainer` for the tokens of `make_tokenizer`: one layer, hidden size 8."""
    import keras

    from kbert import BertConfig, BertPretrainer

    keras.utils.set_random_seed(seed)
    sizes = dict(num_layers=1, hidden_dim=8, num_heads=2, intermediate_dim=12, max_sequence_length=max_sequence_length)
    return BertPretrainer(BertConfig(vocabulary_size=len(VOCABULARY), **sizes, **fields))
