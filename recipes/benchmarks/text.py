"""Text to batches: tokenising, the input of pre-training, and which pairs share a packed row."""

import itertools
import logging
import time

import tensorflow as tf

from benchmarks.peers import race, summary, timed
from kbert.config import default_num_parts
from kbert.corpus.documents import read_documents
from kbert.corpus.installed_prose import installed_documents
from kbert.corpus.records import Records
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs
from kbert.pretraining.real_fractions import first_pool, real_fractions
from kbert.pretraining.rows import count_rows, row_of_pairs
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import read_vocabulary

_LOGGER = logging.getLogger("kbert")
LINES = 50_000  # about 5 MB of English: far more than fits into a cache
LINES_PER_CALL = 1024
PROSE = ("python", "numpy", "keras", "tensorflow")


def prose_lines(settings):
    """Sentences of the corpus, or of the libraries that are installed."""
    if settings.corpus:
        documents = read_documents(settings.corpus)
    else:
        documents = (sentences for _, _, sentences in installed_documents(PROSE, LINES))
    return list(itertools.islice(itertools.chain.from_iterable(documents), LINES))


def tokens_of(settings, lines):
    """The vocabulary of the settings, or one learned from lines."""
    return read_vocabulary(settings.vocabulary) if settings.vocabulary else learn_vocabulary(lines, 8000)


def tokenizer_of(settings):
    """The tokenizer of the settings: that of the vocabulary, else that of the records, else with a learned one."""
    if settings.records and not settings.vocabulary:
        return Records(settings.records).tokenizer()
    return BertTokenizer(tokens_of(settings, [] if settings.vocabulary else prose_lines(settings)))


def source_of(settings):
    """The records or the corpus of the settings."""
    if not (settings.records or settings.corpus):
        raise ValueError("Expected `corpus` or `records` to take batches from. Received: neither")
    return settings.records or settings.corpus


def real_batches(settings):
    """The dataset of pre-training batches of `settings.records` or `settings.corpus`."""
    return pretraining_dataset(
        source_of(settings),
        tokenizer_of(settings),
        batch_size=settings.batch_size,
        sequence_length=settings.sequence_length,
        max_predictions=settings.max_predictions,
        packed=settings.packed,
    )


def tokenize(settings):
    """Lines to token ids through tf.data; other libraries get the same lines in the same batches.

    Returns:
        dict of tokens and megabytes per second.
    """
    lines = prose_lines(settings)
    tokens = tokens_of(settings, lines)
    tokenizer = BertTokenizer(tokens)
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(LINES_PER_CALL)
    dataset = dataset.map(lambda x: tokenizer(x).values, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)

    def work():
        count = sum(int(ids.shape[0]) for ids in dataset.as_numpy_iterator())
        return count, count

    systems = {"kbert": work}
    if settings.peers:
        systems |= _tokenizer_peers(lines, tokens)
    runners = {name: timed(work) for name, work in systems.items()}
    result = summary(race(runners, settings.seconds, settings.rounds))
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    return result | {"megabytes_per_second": megabytes * result["tokens_per_second"] / work()[0], "lines": len(lines)}


def _tokenizer_peers(lines, tokens):
    peers = {}
    try:
        import tokenizers
    except ImportError:
        _LOGGER.info("Hugging Face tokenizers is not installed: pip install tokenizers")
    else:
        rust = tokenizers.BertWordPieceTokenizer({token: i for i, token in enumerate(tokens)}, lowercase=True)

        def encode_batch():
            batches = (lines[i : i + LINES_PER_CALL] for i in range(0, len(lines), LINES_PER_CALL))
            count = sum(len(e.ids) for batch in batches for e in rust.encode_batch(batch, add_special_tokens=False))
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


def pretraining_input(settings):
    """Text or records to masked sentence-pair batches; nominal counts padding, real does not.

    Returns:
        dict of tokens per second.
    """
    batches = iter(real_batches(settings))
    batches_per_piece = 200

    def work():
        real = sum(int(tf.math.count_nonzero(next(batches)[0]["padding_mask"])) for _ in range(batches_per_piece))
        return batches_per_piece * settings.batch_size * settings.sequence_length, real

    return summary(race({"kbert": timed(work)}, settings.seconds, settings.rounds))


def rows(settings):
    """The assignment of the pairs of one pool to rows, by NumPy.

    Returns:
        dict of the processor time a row in microseconds, the least of `rounds` calls; the numbers of rows
        and pairs; and the fractions of tokens that are not padding (`kbert.pretraining.real_fractions`).
    """
    source = source_of(settings)
    tokenizer = tokenizer_of(settings)
    length = settings.sequence_length
    masking = TokenMasking(tokenizer, settings.max_predictions)
    table = sentence_pairs(first_pool(source, tokenizer), 0, 0, max_pair_tokens(length))
    result = {"pairs": int(tf.size(table.keys))}

    @tf.function(autograph=False)
    def assign(table):
        return row_of_pairs(masking, table, length, default_num_parts(length))

    result["rows"] = int(count_rows(assign(table)))
    seconds = min(_seconds(assign, table) for _ in range(settings.rounds))
    result["numpy_processor_us_per_row"] = 1e6 * seconds / max(1, result["rows"])
    fractions = real_fractions(source, tokenizer, sequence_length=length, max_predictions=settings.max_predictions)
    sizes = {"sequence_length": length, "max_predictions": settings.max_predictions}
    return result | {f"{name}_real_fraction": fraction for name, fraction in fractions.items()} | sizes


def _seconds(function, *arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start
