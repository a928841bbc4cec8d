"""The card of an exported version, and what is known about how its weights were made."""

import contextlib
import dataclasses
import datetime
import hashlib
import pathlib
from typing import TYPE_CHECKING, Any

from kbert.pipelines.pipeline import Pipeline
from kbert.serving.audit import AuditReport
from kbert.serving.limits import ServingLimits
from kbert.serving.saved_model_file import TensorSpec
from kbert.serving.server_ops import TEXT_OPS
from kbert.serving.signatures import ServingSignature
from kbert.training.made_by import weights_hash
from kbert.versions import versions

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


def model_card(
    target: pathlib.Path,
    pipeline: Pipeline,
    served: dict[str, ServingSignature],
    limits: ServingLimits,
    report: AuditReport,
    making: dict[str, Any],
) -> dict[str, Any]:
    """The content of card.json, which describes a version for people and programs."""
    name = target.parent.name
    settings = pipeline.settings()
    vocabulary = pipeline.tokenizer.vocabulary
    # The hash of vocab.txt, so that it is the one of kbert.json.
    file = "".join(f"{token}\n" for token in vocabulary).encode("utf-8")
    joined = {name: dataclasses.asdict(each) for name, each in pipeline.trained_columns.items() if len(each.names) > 1}
    return {
        "name": name,
        "version": int(target.name),
        "task": pipeline.model.task,
        "labels": settings.get("labels"),
        "settings": {key: value for key, value in sorted(settings.items()) if key != "labels"},
        **({"joined_columns": joined} if joined else {}),  # a client has to send their text
        "vocabulary": {"tokens": len(vocabulary), "sha256": hashlib.sha256(file).hexdigest()},
        "parameters": pipeline.model.count_params(),
        "precision": pipeline.model.dtype_policy.name,
        **making,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "limits": dataclasses.asdict(limits),
        "servers": {
            "tensorflow_model_server": f"{report.oldest_server} and later",
            "text_ops": sorted(TEXT_OPS.keys() & report.ops.keys()),
        },
        "signatures": {
            key: {
                "method": signature.kind,
                "inputs": _tensors(report.signatures[key].inputs),
                "outputs": _tensors(report.signatures[key].outputs),
                "max_rows": signature.max_rows,
                "example": {
                    "path": f"/v1/models/{name}/versions/{target.name}:{signature.kind}",
                    "body": {"signature_name": key, **_example_request(signature)},
                },
            }
            for key, signature in served.items()
        },
    }


def _tensors(specs: dict[str, TensorSpec]) -> dict[str, Any]:
    return {name: {"dtype": spec.dtype, "shape": ["batch", *(spec.shape or ())[1:]]} for name, spec in specs.items()}


def _example_request(signature: ServingSignature) -> dict[str, Any]:
    """A request for the REST interface."""
    row = signature.examples[0]
    if signature.kind == "predict":
        return {"inputs": {column: [value] for column, value in row.items()}}
    return {"examples": [row]}


def provenance(model: "BertModel") -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known about weights that kbert loaded or trained: (how made, metrics)."""
    known = model.provenance
    if known is None:
        return {}, {}
    made_by = dict(known.made_by)
    if known.path is not None and "weights_sha256" not in made_by:  # of another format, or a run's checkpoint
        with contextlib.suppress(FileNotFoundError):  # the files may have gone since they were loaded
            made_by["weights_sha256"] = weights_hash(known.path)
    return made_by, known.metrics
