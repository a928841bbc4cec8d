"""The rounds of a corpus, the documents that are shuffled together, planned from their sizes alone."""

import itertools

from kbert.corpus.pool import pool_is_full


def plan_rounds(sentences, sizes, tokens, round_tokens):
    """Where rounds end, as [(first document, last document + 1), …], if `text_pools` gathers the documents.

    `sentences`, `sizes` (bytes of text) and `tokens` have a number for each document. A round ends with the first pool
    with which it has `round_tokens` tokens.
    """
    ends = []
    pool_sentences = pool_bytes = pool_tokens = gathered = 0
    for number, (count, size, document_tokens) in enumerate(zip(sentences, sizes, tokens, strict=True)):
        if pool_sentences and pool_is_full(pool_sentences, pool_bytes):
            gathered += pool_tokens
            pool_sentences = pool_bytes = pool_tokens = 0
            if gathered >= round_tokens:
                ends.append(number)
                gathered = 0
        pool_sentences += count
        pool_bytes += size
        pool_tokens += document_tokens
    return list(itertools.pairwise([0, *ends, len(sentences)])) if sentences else []
