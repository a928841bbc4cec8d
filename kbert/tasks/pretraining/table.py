"""A pre-training's scores on held-out text, beside what token frequencies alone would score."""

from collections.abc import Mapping


def describe_scores(metrics: Mapping) -> str:
    """Loss and accuracy of masked tokens, and of next sentences where the run had them, for printing.

    Args:
        metrics: what metrics.json holds of a pre-training.

    Example::

        print(describe_scores(kbert.pretrain("records", size="tiny", steps=10_000).metrics))
    """
    unigram = metrics["unigram"]
    lines = [
        f"held-out masked tokens: loss {metrics['mlm_cross_entropy']:.3f} (token frequencies alone: "
        f"{unigram['cross_entropy']:.3f}), right {metrics['mlm_accuracy']:.1%} "
        f"(always the most frequent: {unigram['accuracy']:.1%})"
    ]
    if "nsp_accuracy" in metrics:
        lines.append(
            f"held-out next sentences: right {metrics['nsp_accuracy']:.1%} "
            f"(always the more frequent label: {unigram['nsp_accuracy']:.1%})"
        )
    return "\n".join(lines)
