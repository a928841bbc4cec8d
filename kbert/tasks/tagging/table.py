"""A tagger's scores as a table, with the paper's."""

PAPER = {  # Table 7, fine-tuning: F1 on CoNLL-2003's dev and test
    "ELMo": (95.7, 92.2),
    "BERT-base, fine-tuned": (96.4, 92.4),
    "BERT-large, fine-tuned": (96.6, 92.8),
}


def describe_scores(metrics) -> str:
    """F1 in percent, for each type and in total, followed by the paper's figures, for printing."""
    dev = metrics["dev"]
    lines = [f"{'':<40}{'precision':>10}{'recall':>8}{'F1':>8}{'entities':>10}"]
    for name, one in [*dev["types"].items(), ("all", dev)]:
        shares = [100 * one[m] for m in ("precision", "recall", "f1")]
        lines.append(f"{name:<40}{shares[0]:>10.1f}{shares[1]:>8.1f}{shares[2]:>8.1f}{one['entities']:>10,}")
    lines += ["", f"{'CoNLL-2003, F1':<40}{'dev':>10}{'test':>8}"]
    lines += [f"{'paper: ' + name:<40}{on_dev:>10}{on_test:>8}" for name, (on_dev, on_test) in PAPER.items()]
    ours = f"this run ({metrics['train_examples']:,} sentences)"
    return "\n".join([*lines, f"{ours:<40}{100 * dev['f1']:>10.1f}{'-':>8}"])
