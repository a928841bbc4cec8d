"""The model card: a description of a version for people and programs."""

import dataclasses
import datetime
import hashlib

from kbert.versions import versions


def model_card(name, version, pipeline, signatures, limits, report, metrics, made_by, *, frozen_weights):
    """The content of card.json."""
    settings = pipeline.settings()
    vocabulary = pipeline.tokenizer.vocabulary
    file = "".join(f"{token}\n" for token in vocabulary)  # vocab.txt, so that the hash is the one of manifest.json
    digest = hashlib.sha256(file.encode("utf-8")).hexdigest()
    return {
        "name": name,
        "version": version,
        "task": getattr(pipeline.model, "task", None),
        "labels": settings.get("labels"),
        "settings": {key: value for key, value in sorted(settings.items()) if key != "labels"},
        "vocabulary": {"tokens": len(vocabulary), "sha256": digest},
        "parameters": pipeline.model.count_params(),
        "precision": pipeline.model.dtype_policy.name,
        "frozen_weights": frozen_weights,
        "metrics": metrics,
        "made_by": made_by,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "limits": dataclasses.asdict(limits),
        "servers": {"tensorflow_model_server": "2.12 and later", "text_ops": sorted(report.servers)},
        "signatures": {
            key: {
                **_described(report.signatures[key]),
                "max_rows": signature.max_rows,
                "example": _example(name, version, key, signature),
            }
            for key, signature in signatures.items()
        },
    }


def _described(signature):
    def tensors(specs):
        return {key: {"dtype": spec.dtype, "shape": ["batch", *(spec.shape or ())[1:]]} for key, spec in specs.items()}

    return {"method": signature.kind, "inputs": tensors(signature.inputs), "outputs": tensors(signature.outputs)}


def _example(name, version, key, signature):
    """A request for the REST interface."""
    row = signature.examples[0]
    body = {"signature_name": key}
    if signature.kind == "predict":
        body["inputs"] = {column: [value] for column, value in row.items()}
    else:
        body["examples"] = [row]
    return {"path": f"/v1/models/{name}/versions/{version}:{signature.kind}", "body": body}
