"""Token frequencies of a corpus, and how well they alone predict masked tokens: the baseline of a language model.

Shapes: V vocabulary.
"""

import numpy as np

from kbert.checks import check_positive
from kbert.corpus.pool import text_pools
from kbert.corpus.reading_errors import reading_errors
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.pretraining.sources import resolve_held_out, text_documents
from kbert.pretraining.tfrecords import is_tfrecords, tfrecord_token_ids


def token_counts(source, tokenizer, max_tokens=20_000_000, held_out=None):
    """How often each token occurs in the training documents of a corpus.

    Args:
        source, held_out: as for `kbert.pretraining.pretraining_dataset`.
        max_tokens: where to stop; None: at the end of the corpus.

    Returns:
        NumPy int64 [V].

    Raises:
        ValueError: `max_tokens` is not a positive integer; as `pretraining_dataset` of the same source.
    """
    if max_tokens is not None:
        (max_tokens,) = check_positive("token_counts", max_tokens=max_tokens).values()
    held_out = resolve_held_out("token_counts", source, held_out)
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    with reading_errors():
        for token_ids in _token_ids(source, tokenizer, held_out):
            counts += np.bincount(token_ids, minlength=len(counts))
            if max_tokens is not None and counts.sum() >= max_tokens:
                break
    return counts


def unigram_baseline(counts, evaluation):
    """Loss and accuracy of predicting each masked token of a held-out set by token frequencies alone.

    Args:
        counts: integers [V], `token_counts` of the training documents. One is added to each, so that unseen tokens have
            a probability, too.
        evaluation: dataset of (inputs, labels, sample_weight), `pretraining_dataset(..., evaluation=True)`.

    Returns:
        dict: `cross_entropy`, mean over the masked tokens, in nats, compared with the masked-LM loss; `accuracy` of
        always predicting the most frequent token; `entropy` of the frequencies themselves, in nats; `masks`, the number
        of masked tokens.
    """
    probabilities = (counts + 1) / (counts.sum() + len(counts))
    surprise = -np.log(probabilities)
    most_frequent = int(counts.argmax())
    total = hits = masks = 0.0
    for _, labels, weights in evaluation.as_numpy_iterator():
        ids, weight = labels["mlm_logits"], weights["mlm_logits"]
        total += float((surprise[ids] * weight).sum())
        hits += float(((ids == most_frequent) * weight).sum())
        masks += float(weight.sum())
    if not masks:
        raise ValueError("The evaluation set has no masked token.")
    return {
        "cross_entropy": total / masks,
        "accuracy": hits / masks,
        "entropy": float((probabilities * surprise).sum()),
        "masks": int(masks),
    }


def _token_ids(source, tokenizer, held_out):
    if is_records(source):
        records = Records(source)
        records.check_tokenizer(tokenizer)
        for shard in range(len(records.training)):
            yield records.pool(shard).token_ids.numpy()
    elif is_tfrecords(source):
        for token_ids in tfrecord_token_ids(source, held_out):
            yield token_ids[~np.isin(token_ids, [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id])]
    else:
        documents = text_documents(source, tokenizer, "auto", "en", 0, 1, False, held_out)
        for _, _, pool in text_pools(documents, tokenizer).as_numpy_iterator():
            yield pool.token_ids
