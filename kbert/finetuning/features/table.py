"""Scores of the feature-based approach as a table, beside the paper's."""

from collections.abc import Mapping

from kbert.models.feature_modes import FEATURE_MODES

PAPER = dict(zip(FEATURE_MODES, (91.0, 95.6, 94.9, 95.9, 96.1, 95.5), strict=True))  # Table 7: F1 on CoNLL-2003's dev


def describe_scores(metrics: Mapping[str, dict]) -> str:
    """F1 on dev in percent of each feature mode, and the minutes it took, beside the paper's figures, for printing."""
    lines = [f"{'F1 on dev, feature-based':<28}{'paper, BERT-base':>18}{'this run':>12}{'minutes':>10}"]
    for mode, published in PAPER.items():
        ours = f"{100 * metrics[mode]['dev']['f1']:.1f}" if mode in metrics else "-"
        minutes = f"{metrics[mode]['minutes']:.1f}" if mode in metrics else "-"
        lines.append(f"{mode:<28}{published:>18.1f}{ours:>12}{minutes:>10}")
    return "\n".join(lines)
