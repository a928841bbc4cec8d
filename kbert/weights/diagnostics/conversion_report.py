"""Reports on the conversion of a checkpoint: names in both formats, and outputs compared with other libraries."""

from typing import Any

from kbert.weights.diagnostics.parity import measure_parity
from kbert.weights.load import load_pretrained


def conversion_report(model, output) -> tuple[dict[str, Any], list[str]]:
    """Compares a model, and the files written from it, with the libraries of both formats.

    Args:
        model: what `kbert.load_pretrained` returned.
        output: where `kbert.save_pretrained` wrote it.

    Returns:
        (JSON-able dict with ``read`` and ``written``, each with every variable's names and the parity; its lines to
        print).
    """
    written, report, lines = load_pretrained(output), {}, list(model.pretrained.report.table())
    for side, of, path in (("read", model, model.pretrained.report.source), ("written", written, output)):
        parity = measure_parity(of, path)
        report[side] = {**of.pretrained.report.to_dict(), "parity": parity.to_dict()}
        lines += parity.lines()
    return report, lines
