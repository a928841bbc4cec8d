"""Reports of a pre-training: its plan, and its scores beside what token frequencies alone would score."""

from collections.abc import Mapping

from kbert.training.dry_run import format_estimate


def describe_scores(metrics: Mapping) -> str:
    """Loss and accuracy of masked tokens, and of next sentences where the run had them, for printing."""
    loss, accuracy = f"loss {metrics['mlm_cross_entropy']:.3f}", f"masked-LM accuracy {metrics['mlm_accuracy']:.1%}"
    pairs = f"next-sentence accuracy {metrics['nsp_accuracy']:.1%}" if "nsp_accuracy" in metrics else None
    if unigram := metrics.get("unigram"):  # of stored batches it is not known
        loss += f" (token frequencies alone: {unigram['cross_entropy']:.3f})"
        accuracy += f" (always the most frequent: {unigram['accuracy']:.1%})"
        pairs = pairs and f"{pairs} (always the more frequent label: {unigram['nsp_accuracy']:.1%})"
    return f"held-out masked tokens: {loss}, {accuracy}" + (f"\nheld-out pairs: {pairs}" if pairs else "")


def describe_estimate(estimate: Mapping) -> str:
    """What `kbert.pretrain(dry_run=True)` found, for printing."""
    if "sequences_per_epoch" not in estimate:  # of stored batches it is not known
        return format_estimate(estimate)
    count = f"{estimate['sequences_per_epoch']:,}" + ("" if estimate["sequences_are_all"] else " or more")
    return f"{count} sequences in an epoch\n{format_estimate(estimate)}"


def describe_run(run) -> str:
    """The scores of a `PretrainingRun`, and where its model and curves are, for printing."""
    return (
        f"\n{describe_scores(run.metrics)}\n{run.metrics['minutes']:.1f} minutes\n"
        f"The model is in {run.path / 'model'}, the curves in {run.path / 'logs'}\n"
        f"Next: kbert finetune classification --source {run.path} --train my.csv …"
    )
