"""Which pairs share a packed row: how long it takes to decide, and how full the rows are."""

import time

import tensorflow as tf

from benchmarks.text import source_of, tokenizer_of
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.packed_rows import count_rows, default_num_parts, row_of_pairs
from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs
from kbert.pretraining.real_shares import first_pool, real_shares


def rows(settings):
    """The assignment of the pairs of one pool to rows, by NumPy and by TensorFlow's operations alone.

    Returns:
        dict of the processor time a row in microseconds, the least of `rounds` calls, of both ways; the numbers of rows
        and pairs; and the shares of tokens that are not padding (`kbert.pretraining.real_shares`).
    """
    source, tokenizer = source_of(settings), tokenizer_of(settings)
    length, masking = settings.sequence_length, TokenMasking(tokenizer, settings.max_predictions)
    table = sentence_pairs(first_pool(source, tokenizer), 0, 0, max_pair_tokens(length))
    result = {"pairs": int(tf.size(table.keys))}
    for name, in_graph in (("numpy", False), ("in_graph", True)):

        @tf.function(autograph=False)
        def assign(table, in_graph=in_graph):
            return row_of_pairs(masking, table, length, default_num_parts(length), in_graph=in_graph)

        result["rows"] = int(count_rows(assign(table)))
        result[f"{name}_processor_us_per_row"] = 1e6 * min(_seconds(assign, table) for _ in range(settings.rounds))
        result[f"{name}_processor_us_per_row"] /= max(1, result["rows"])
    shares = real_shares(source, tokenizer, sequence_length=length, max_predictions=settings.max_predictions)
    sizes = {"sequence_length": length, "max_predictions": settings.max_predictions}
    return result | {f"{name}_real_share": share for name, share in shares.items()} | sizes


def _seconds(function, *arguments):
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start
