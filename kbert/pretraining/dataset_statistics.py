"""Statistics of a pre-training dataset, measured on its batches, and what token frequencies alone would predict.

Shapes: B batch, S sequence, P predictions, V vocabulary.
"""

import collections
import itertools
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.checks import check_option
from kbert.corpus.corpus_files import is_tfrecords
from kbert.corpus.held_out import HELD_OUT
from kbert.corpus.records import Records
from kbert.errors import reading_errors
from kbert.options import Count
from kbert.pretraining.tfrecords import tfrecord_token_ids

if TYPE_CHECKING:
    import tensorflow as tf

    from kbert.pretraining.dataset import Source
    from kbert.text.tokenizer import BertTokenizer


BASELINE_TOKENS = 2_000_000  # of the training documents, which `unigram_baseline` of a run counts


def dataset_statistics(
    dataset: "tf.data.Dataset", tokenizer: "BertTokenizer", batches: int = 200, left_to_right: bool = False
) -> dict[str, Any]:
    """Counts over the first batches of a `pretraining_dataset`.

    Args:
        dataset: of (inputs, labels, sample_weight).
        left_to_right: whether the predictions are of next tokens: the three rates of masks are then None.

    Returns:
        dict of floats and ints: `sequences`, the rows; `parts_per_sequence`, 1 unless they are packed;
        `random_next_fraction`, the fraction of pairs whose second segment is random
        (None without next sentences); `masks_per_sequence`, its smallest and largest value; `mask_token_rate`,
        `keep_rate`, `random_token_rate` of the masks (a random token that happens to be the right one counts as kept);
        `tokens_per_sequence`; `padding_fraction`; `unknown_fraction`, that of [UNK] among the tokens that are not
        masked; `tokens_per_second` without padding and `nominal_tokens_per_second` with padding, both without the first
        batch, during which the pipeline starts.

    Raises:
        ValueError: the dataset gives no batch, or reads a damaged file.
    """
    counts = collections.Counter()
    masks_of_rows = []
    rate = {}
    iterator = dataset.as_numpy_iterator()
    started = None
    with reading_errors():
        for inputs, labels, weights in itertools.islice(iterator, batches):
            now = time.perf_counter()
            counts.update(_count(inputs, labels, weights, tokenizer))
            masks_of_rows.append(weights["mlm_logits"].sum(axis=1).astype(int))
            if started is None:
                started, first = now, dict(counts)
            else:
                rate = {name: (counts[name] - first[name]) / (now - started) for name in ("tokens", "slots")}
    if not counts:
        raise ValueError("The corpus has fewer pairs than `batch_size`, so there is no batch. Use a smaller one.")
    masks, rows = counts["masks"], np.concatenate(masks_of_rows)
    rates = dict.fromkeys(("mask_token_rate", "keep_rate", "random_token_rate"))
    if not left_to_right:
        rates["mask_token_rate"] = counts["masked"] / masks
        rates["keep_rate"] = counts["kept"] / masks
        rates["random_token_rate"] = (masks - counts["masked"] - counts["kept"]) / masks
    return {
        "sequences": len(rows),
        "parts_per_sequence": counts["parts"] / len(rows),
        "random_next_fraction": counts["random"] / counts["parts"] if "random" in counts else None,
        "masks_per_sequence": masks / len(rows),
        "fewest_masks": int(rows.min()),
        "most_masks": int(rows.max()),
        **rates,
        "tokens_per_sequence": counts["tokens"] / len(rows),
        "padding_fraction": 1 - counts["tokens"] / counts["slots"],
        "unknown_fraction": counts["unknown"] / max(1, counts["tokens"] - counts["masked"]),
        "tokens_per_second": rate.get("tokens"),
        "nominal_tokens_per_second": rate.get("slots"),
    }


def format_report(report: Mapping[str, Any]) -> str:
    """The report as readable lines."""
    of = report.__getitem__
    masks = f"{of('masks_per_sequence'):.2f} ({of('fewest_masks')} to {of('most_masks')})"
    if of("mask_token_rate") is None:
        masks = f"predictions           {masks} a sequence, of next tokens"
    else:
        rates = [(of("mask_token_rate"), "[MASK]"), (of("keep_rate"), "kept"), (of("random_token_rate"), "random")]
        masks = f"masks a sequence      {masks}: " + ", ".join(f"{rate:.1%} {name}" for rate, name in rates)
    lines = [
        f"sequences looked at   {of('sequences'):,}",
        f"tokens a sequence     {of('tokens_per_sequence'):.1f}, padding {of('padding_fraction'):.1%}, "
        f"[UNK] {of('unknown_fraction'):.2%}",
        masks,
    ]
    if of("random_next_fraction") is not None:
        lines.insert(1, f"random next sentence  {of('random_next_fraction'):.1%}")
    if of("parts_per_sequence") > 1:
        lines[0] += f", packed: {of('parts_per_sequence'):.2f} pairs a row"
    if of("tokens_per_second") is not None:
        lines.append(
            f"tokens a second       {of('tokens_per_second'):,.0f} "
            f"({of('nominal_tokens_per_second'):,.0f} with padding)"
        )
    return "\n".join(lines)


def _count(inputs, labels, weights, tokenizer):
    token_ids, padding_mask, positions = (inputs[n] for n in ("token_ids", "padding_mask", "mask_positions"))
    is_mask = weights["mlm_logits"] > 0  # [B, P]
    shown = np.take_along_axis(token_ids, positions, axis=1)  # [B, P]
    masked = is_mask & (shown == tokenizer.mask_id)
    counts = {
        "masks": int(is_mask.sum()),
        "masked": int(masked.sum()),
        "kept": int((is_mask & ~masked & (shown == labels["mlm_logits"])).sum()),
        "tokens": int(padding_mask.sum()),
        "slots": padding_mask.size,
        "parts": int(inputs["part_ids"].max(axis=1).sum()) if "part_ids" in inputs else len(token_ids),
        "unknown": int((padding_mask & (token_ids == tokenizer.unk_id)).sum()),
    }
    if "nsp_logits" in labels:
        counts["random"] = int(labels["nsp_logits"].sum())  # 0 for parts that a packed row does not have
    return counts


def token_counts(
    source: "Source", tokenizer: "BertTokenizer", max_tokens: int | None = 20_000_000, held_out: float | None = None
) -> np.ndarray:
    """How often each token occurs in the training documents of a corpus.

    Args:
        source: as for `kbert.pretraining.pretraining_dataset`.
        max_tokens: where to stop; None: at the end of the corpus.
        held_out: fraction of the rows of TFRecords that are not counted, 0.01 by default.

    Returns:
        NumPy int64 [V].

    Raises:
        ValueError: `max_tokens` is not a positive integer; as `pretraining_dataset` of the same source.
    """
    max_tokens = check_option("token_counts", "max_tokens", max_tokens, Count | None)
    counts = np.zeros(tokenizer.vocabulary_size, np.int64)
    with reading_errors():
        for token_ids in _token_ids(source, tokenizer, held_out):
            counts += np.bincount(token_ids, minlength=len(counts))
            if max_tokens is not None and counts.sum() >= max_tokens:
                break
    return counts


def unigram_baseline(counts: np.ndarray, evaluation: "tf.data.Dataset") -> dict[str, float]:
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


def baseline_curves(unigram: Mapping[str, Any]) -> dict[str, float]:
    """What token frequencies and the majority-class baseline reach, as curves: names as in the logs of a run."""
    loss = unigram["cross_entropy"]
    curves = {"mlm_loss": loss, "mlm_cross_entropy": loss, "mlm_perplexity": float(np.exp(loss))}
    curves |= {"mlm_accuracy": unigram["accuracy"], "loss": loss}
    if (fraction := unigram.get("nsp_accuracy")) is not None:
        entropy = -sum(p * math.log(p) for p in (fraction, 1 - fraction) if p)
        curves |= {"nsp_accuracy": fraction, "nsp_loss": entropy, "loss": loss + entropy}
    return curves


def next_sentence_labels(dataset: "tf.data.Dataset") -> np.ndarray:
    """How many pairs of a dataset have each next-sentence label: float [2]."""
    counts = np.zeros(2)
    for _, labels, weights in dataset.as_numpy_iterator():
        np.add.at(counts, labels["nsp_logits"], weights["nsp_logits"])
    return counts


def _token_ids(source, tokenizer, held_out):
    if is_tfrecords(source):
        for token_ids in tfrecord_token_ids(source, HELD_OUT if held_out is None else held_out):
            yield token_ids[~np.isin(token_ids, [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id])]
        return
    records = source if isinstance(source, Records) else Records(source)
    records.check_tokenizer(tokenizer)
    for shard in range(len(records.training)):
        yield records.pool(shard).token_ids.numpy()
