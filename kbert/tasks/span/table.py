"""The scores of answers to questions as a table, with the paper's."""

from kbert.tasks.span.readers import SQUAD_PAPER


def describe_scores(metrics, version: str, with_paper: bool = True) -> str:
    """Exact match and F1 of a run, their split, and the paper's rows, for printing.

    Args:
        with_paper: whether the dev set is SQuAD's.
    """
    dev = metrics["dev"]
    name = f"this run, SQuAD {version}, dev" if with_paper else "this run, dev"
    rows = {name: (dev["exact"], dev["f1"])}
    for prefix, name in (("HasAns_", "with an answer"), ("NoAns_", "without")):
        if prefix + "f1" in dev:
            rows[f"  {dev[prefix + 'total']:,} {name}"] = (dev[prefix + "exact"], dev[prefix + "f1"])
    if "NoAns_f1" in dev:
        rows["always no answer"] = (metrics["constant_answer"]["exact"], metrics["constant_answer"]["f1"])
    if with_paper:
        rows |= {f"paper, {name}": (row["exact"], row["f1"]) for name, row in SQUAD_PAPER[version].items()}
    lines = [f"{name:<52} EM {exact:5.1f}   F1 {f1:5.1f}" for name, (exact, f1) in rows.items()]
    if metrics["null_threshold"] is not None:
        lines.append(
            f"no answer where its score is better by more than {metrics['null_threshold']:.4f} (chosen on dev)"
        )
    return "\n".join(lines)
