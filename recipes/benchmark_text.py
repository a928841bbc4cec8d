"""The text parts of benchmark.py: tokenization, and the pre-training input pipeline."""

import itertools

import tensorflow as tf
from benchmark_race import race, summary

from kbert import BertTokenizer
from kbert.corpus.documents import read_documents
from kbert.corpus.installed_prose import installed_documents
from kbert.pretraining.dataset import pretraining_dataset
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.vocabulary import read_vocabulary

LINES = 50_000  # about 5 MB of English: far more than any cache holds
LINES_PER_CALL = 1024
PROSE = ("python", "numpy", "keras", "tensorflow")


def prose_lines(args):
    """Sentences of --corpus, or of the libraries installed here."""
    if args.corpus:
        documents = read_documents(args.corpus)
    else:
        documents = (sentences for _, _, sentences in installed_documents(PROSE, LINES))
    return list(itertools.islice(itertools.chain.from_iterable(documents), LINES))


def vocabulary(args, lines):
    return read_vocabulary(args.vocab) if args.vocab else learn_vocabulary(lines, 8000)


def tokenize(args):
    """Lines to token ids through tf.data; peers get the same lines in the same batches."""
    lines = prose_lines(args)
    tokens = vocabulary(args, lines)
    tokenizer = BertTokenizer(tokens)
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_PER_CALL)
    dataset = dataset.map(lambda x: tokenizer(x).values, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)

    def work():
        count = sum(int(ids.shape[0]) for ids in dataset.as_numpy_iterator())
        return count, count

    systems = {"kbert": work}
    if args.peers:
        systems |= _tokenizer_peers(lines, tokens)
    result = summary(race(systems, args.seconds, args.rounds))
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    return result | {"megabytes_per_second": megabytes * result["tokens_per_second"] / work()[0], "lines": len(lines)}


def _tokenizer_peers(lines, tokens):
    peers = {}
    try:
        import tokenizers
    except ImportError:
        print("Hugging Face tokenizers is not installed: pip install tokenizers")
    else:
        rust = tokenizers.BertWordPieceTokenizer({token: i for i, token in enumerate(tokens)}, lowercase=True)

        def encode_batch():
            batches = (lines[i : i + LINES_PER_CALL] for i in range(0, len(lines), LINES_PER_CALL))
            count = sum(
                len(e.ids) for batch in batches for e in rust.encode_batch(batch, add_special_tokens=False)
            )  # fmt: skip
            return count, count

        peers["tokenizers.encode_batch"] = encode_batch
    import keras_hub

    hub = keras_hub.tokenizers.BertTokenizer(list(tokens), lowercase=True, strip_accents=True)
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_PER_CALL)
    dataset = dataset.map(lambda x: hub(x).values, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)

    def hub_batches():
        count = sum(int(ids.shape[0]) for ids in dataset.as_numpy_iterator())
        return count, count

    return peers | {"keras_hub.BertTokenizer": hub_batches}


def pretraining_input(args):
    """Text or records to masked sentence-pair batches; nominal counts padding, real does not."""
    lines = [] if args.vocab else prose_lines(args)
    tokenizer = BertTokenizer(vocabulary(args, lines))
    if not (args.records or args.corpus):
        raise SystemExit("benchmark.py input: give --corpus GLOB… or --records DIR")
    dataset = pretraining_dataset(
        args.records or args.corpus,
        tokenizer,
        batch_size=args.batch_size,
        sequence_length=args.sequence_length,
        predictions=args.predictions,
    )
    batches = iter(dataset)
    batches_per_piece = 200

    def work():
        real = sum(int(tf.math.count_nonzero(next(batches)[0]["padding_mask"])) for _ in range(batches_per_piece))
        return batches_per_piece * args.batch_size * args.sequence_length, real

    return summary(race({"kbert": work}, args.seconds, args.rounds))
