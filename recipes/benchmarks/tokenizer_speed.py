"""How fast are strings tokenized, beside Hugging Face's tokenizers and keras-hub?

    python recipes/benchmarks/tokenizer_speed.py --peers
    python recipes/benchmarks/tokenizer_speed.py --corpus 'udhr/*.txt' --vocabulary vocab.txt --peers

The same lines in batches of 1,024. The text is English prose of this Python installation unless `--corpus` is given,
the vocabulary one of 8,000 tokens learned from it.
"""

import functools
import itertools

import tensorflow as tf
from turns import arguments, is_installed, report, take_turns, timed

from kbert.corpus.documents import read_documents
from kbert.corpus.installed_prose import installed_documents
from kbert.text import BertTokenizer, learn_vocabulary
from kbert.text.vocabulary import read_vocabulary

LINES, LINES_PER_CALL = 50_000, 1024  # about 5 MB of English: far more than fits into a cache
PROSE = ("python", "numpy", "keras", "tensorflow")


def main(corpus, vocabulary, peers, rounds, seconds):
    lines = prose_lines(corpus)
    tokens = read_vocabulary(vocabulary) if vocabulary else learn_vocabulary(lines, 8000)
    systems = {"kbert": functools.partial(through_tf_data, "kbert", lines, tokens)}
    if peers and is_installed("tokenizers"):
        systems["tokenizers.encode_batch"] = functools.partial(encode_batch, lines, tokens)
    if peers and is_installed("keras_hub"):
        systems["keras-hub"] = functools.partial(through_tf_data, "keras-hub", lines, tokens)
    found = take_turns(systems, rounds, seconds)
    report(found, int(BertTokenizer(tokens)(lines).row_lengths().numpy().sum()))


def prose_lines(corpus):
    """Sentences of a corpus, or of the libraries that are installed."""
    documents = read_documents(corpus) if corpus else (lines for _, _, lines in installed_documents(PROSE, LINES))
    return list(itertools.islice(itertools.chain.from_iterable(documents), LINES))


def through_tf_data(library, lines, tokens):
    if library == "kbert":
        tokenizer = BertTokenizer(tokens)
    else:
        import keras_hub

        tokenizer = keras_hub.tokenizers.BertTokenizer(list(tokens), lowercase=True, strip_accents=True)
    data = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_PER_CALL)
    data = data.map(lambda x: tokenizer(x).values, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return timed(lambda: sum(len(ids) for ids in data.as_numpy_iterator()))


def encode_batch(lines, tokens):
    import tokenizers

    rust = tokenizers.BertWordPieceTokenizer({token: n for n, token in enumerate(tokens)}, lowercase=True)
    parts = [lines[n : n + LINES_PER_CALL] for n in range(0, len(lines), LINES_PER_CALL)]
    return timed(lambda: [len(one.ids) for part in parts for one in rust.encode_batch(part, add_special_tokens=False)])


if __name__ == "__main__":
    main(**vars(arguments(__doc__, corpus="", vocabulary="").parse_args()))
