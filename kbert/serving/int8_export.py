"""What `kbert.export` does for int8: calibrate, convert, compare with float32.

Shapes: B texts, N labels, H hidden.
"""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from kbert.checks import shown
from kbert.finetuning.evaluate import evaluate_sets, evaluation_sets
from kbert.pipelines.pipeline import Pipeline
from kbert.serving.calibration import calibration_rows, int8_pipeline
from kbert.serving.int8 import check_int8_product

_LOGGER = logging.getLogger("kbert")

# The least of each measure that brings no warning.
_LIMITS = {"mean_cosine": 0.98, "agreement": 0.97, "correlation": 0.98}


def int8_export(pipeline: Pipeline, calibration: Any, examples: Any = None) -> tuple[Pipeline, dict[str, Any]]:
    """The int8 copy of a pipeline, and for the card how it differs from float32.

    `calibration` are the texts, or the path of a file of them. `examples` are what `kbert.evaluate` takes; None: none.
    """
    check_int8_product()
    sets = None if examples is None else evaluation_sets(pipeline, None, examples)
    texts = calibration_rows(pipeline, calibration)
    float_answers = pipeline.predict(texts, verbose=0)
    rows = len(next(iter(texts.values())))
    if not rows:
        raise ValueError(f"export: `calibration` has no rows. Received: {shown(calibration)}")
    if {"tokens", "tags"} & float_answers.keys() and not _decisions(float_answers):
        needed = "[MASK]" if "tokens" in float_answers else "words"
        raise ValueError(f"export: the model predicts nothing for the `calibration` texts. Use texts with {needed}.")
    int8 = int8_pipeline(pipeline, texts)
    found = differences(float_answers, int8.predict(texts, verbose=0))
    report: dict[str, Any] = {"rows": rows, **found}
    _LOGGER.info("int8 against float32 on %s calibration rows: %s", rows, _shown(found))
    if low := {name: limit for name, limit in _LIMITS.items() if report.get(name, limit) < limit}:
        _LOGGER.warning(
            "int8 answers differ from float32 more than usual: %s, below %s. Calibrate on texts of the kind that the "
            'model will answer, or export with precision="bfloat16".',
            _shown({name: report[name] for name in low}),
            _shown(low),
        )
    if sets is not None:
        scores = {name: evaluate_sets(each, *sets).scores for name, each in (("float32", pipeline), ("int8", int8))}
        report["scores"] = scores
        for name, values in scores.items():
            _LOGGER.info("%s: %s", name, _shown(values))
    return int8, report


def differences(expected: Mapping[str, np.ndarray], answers: Mapping[str, np.ndarray]) -> dict[str, float]:
    """How a pipeline's answers differ from another's, as far as it has such answers.

    Returns:
        ``mean_cosine`` and ``least_cosine`` of embeddings. ``agreement``: the fraction of equal labels, label sets,
        choices, answers, entity lists, best tokens for a mask, or tags of words. ``probability_difference``: the
        largest. ``score_difference``, the largest, and ``correlation`` of a regressor's scores.
    """
    found = {}
    if "embedding" in answers:
        first, second = (_unit(each["embedding"]) for each in (expected, answers))
        cosines = (first * second).sum(axis=1)
        found |= {"mean_cosine": cosines.mean(), "least_cosine": cosines.min()}
    if decisions := _decisions(expected):
        found["agreement"] = np.mean([a == b for a, b in zip(decisions, _decisions(answers), strict=True)])
    for name in ("probabilities", "is_next"):
        if name in answers:
            found["probability_difference"] = np.abs(answers[name] - expected[name]).max(initial=0.0)
    if set(answers) == {"score"}:
        found["score_difference"] = np.abs(answers["score"] - expected["score"]).max(initial=0.0)
        if expected["score"].std() > 0:
            found["correlation"] = np.corrcoef(answers["score"], expected["score"])[0, 1]
    return {name: round(float(value), 5) for name, value in found.items()}


def _decisions(answers: Mapping[str, np.ndarray]) -> list:
    """What the answers decide, as a list of comparable values; empty where they are embeddings or scores."""
    for name in ("label", "choice", "answer"):
        if name in answers:
            return answers[name].tolist()
    if "is_on" in answers:
        return [tuple(row) for row in answers["is_on"].tolist()]
    if "tags" in answers:
        return [
            tag for row, count in zip(answers["tags"].tolist(), answers["count"], strict=True) for tag in row[:count]
        ]
    if "tokens" in answers:
        return [
            best
            for row, count in zip(answers["tokens"].tolist(), answers["count"], strict=True)
            for best, *_ in row[:count]
        ]
    if "types" in answers:
        parts = zip(*(answers[name].tolist() for name in ("types", "starts", "ends", "count")), strict=True)
        return [(types[:n], starts[:n], ends[:n]) for types, starts, ends, n in parts]
    return []


def _unit(x: np.ndarray) -> np.ndarray:  # [B, H]
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items() if isinstance(value, int | float))
