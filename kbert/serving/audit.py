"""Would a stock TensorFlow Serving run this SavedModel?"""

import dataclasses
import pathlib

from kbert.checks import check_path
from kbert.keras_compat import is_tensorflow_op
from kbert.serving import audit_files
from kbert.serving.saved_model_file import SavedModelFile, find_export
from kbert.serving.server_ops import ROLE_OPS, TEXT_OPS, forbidden

_OLDEST = "2.12"  # the oldest server that kbert's exports run in


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """The result of `audit`.

    Attributes:
        path: the version that was read.
        ops: dict of op → how often it occurs in the graph and its functions.
        servers: dict of each op that is not TensorFlow's own → first server that links it, or None.
        signatures: dict of name → `kbert.serving.Signature`.
        problems: list of str; empty if a stock server runs the model.

    Raises:
        ValueError: on `require_clean`, if there are problems.
    """

    path: pathlib.Path
    ops: dict[str, int]
    servers: dict[str, str | None]
    signatures: dict
    problems: list[str]

    def lines(self):
        """The report as text, a list of lines."""
        core = sorted(op for op in self.ops if op not in self.servers)
        yield f"{self.path}: {len(self.ops)} ops, {len(self.signatures)} signatures"
        yield f"  core TensorFlow ({len(core)}, in every server since {_OLDEST} unless named below): {' '.join(core)}"
        for op, since in sorted(self.servers.items()):
            yield f"  {op:40s} " + (f"tensorflow_model_server {since} and later" if since else "no stock server")
        for name, signature in self.signatures.items():
            inputs, outputs = ", ".join(signature.inputs), ", ".join(signature.outputs)
            yield f"  signature {name:20s} {signature.kind}: {inputs} -> {outputs}"
        for problem in self.problems:
            yield f"  PROBLEM {problem}"
        if not self.problems:
            yield f"  A stock tensorflow_model_server {_OLDEST} or later runs it."

    def require_clean(self):
        """Raises a ValueError with all problems, if there are any."""
        if self.problems:
            raise ValueError(f"audit of {self.path}: " + "; ".join(self.problems))


def audit(saved_model):
    """Checks that a stock TensorFlow Serving can run an exported SavedModel. The model is read, not run.

    It checks every op of every function (one that computes, and is linked into the stock servers since 2.12; files are
    read and written by nothing but the SavedModel's own functions that restore and save its variables); the
    signatures (a default, the batch as first dimension everywhere, names that REST does not reserve); that each weight
    is stored once; that the warm-up requests match the signatures; and that a server accepts the batching parameters.

    Args:
        saved_model: path of one version (``saved_models/NAME/1``), or ``saved_models/NAME``: its highest version.

    Returns:
        `AuditReport`.

    Raises:
        TypeError: no path.
        FileNotFoundError, ValueError: no SavedModel, or a damaged one.

    Source: tensorflow/serving, model_servers/BUILD (SUPPORTED_TENSORFLOW_OPS) and batching_session.cc.

    Example::

        report = kbert.audit("saved_models/reviews")
        report.require_clean()
    """
    given = check_path(saved_model, "audit: `saved_model`", "the path of a SavedModel")
    path = find_export(given) or given
    model = SavedModelFile(path)
    ops = dict(sorted(model.ops().items()))
    servers = {op: TEXT_OPS.get(op) for op in ops if op in TEXT_OPS or not is_tensorflow_op(op)}
    problems = [
        *_op_problems(model, servers),
        *(f"the function {name} is compiled by XLA, which has no strings" for name in model.compiled_functions()),
        *_signature_problems(model.signatures),
        *(f"the graph reads the file assets/{name}" for name in model.asset_names()),
        *(
            f"{file.name} stands beside saved_model.pb, and a loader may read it instead"
            for file in sorted(path.glob("saved_model.*"))
            if file.name != "saved_model.pb"
        ),
        *audit_files.weight_problems(model),
        *audit_files.warmup_problems(path, model),
        *audit_files.batching_problems(path),
    ]
    return AuditReport(path, ops, servers, model.signatures, problems)


def _op_problems(model, servers):
    for op in sorted({op for role, body in model.bodies() for op in body if op not in ROLE_OPS[role]}):
        if op in servers:
            since = servers[op]
            if since is None:
                yield f"{op} is in no stock server"
            elif _number(since) > _number(_OLDEST):
                yield f"{op} is in no server before {since}"
        elif reason := forbidden(op):
            yield f"{op} {reason}"


def _number(release):
    return tuple(int(part) for part in release.split("."))


def _signature_problems(signatures):
    if "serving_default" not in signatures:
        yield f"there is no signature serving_default, only {list(signatures)}"
    for name, signature in signatures.items():
        for place, specs in (("input", signature.inputs), ("output", signature.outputs)):
            if not specs:
                yield f"the signature {name} has no {place}"
            for key, spec in specs.items():
                if not spec.shape or spec.shape[0] is not None:
                    yield f"{name}: the {place} {key} must have the batch first; its shape is {spec.shape}"
        for key in signature.outputs:
            if key.endswith("_bytes"):
                yield f"{name}: REST encodes outputs named *_bytes in base64; rename {key}"
        yield from _method_problems(name, signature)


_METHODS = {  # kind → its outputs
    "classify": {"classes": "string", "scores": "float32"},
    "regress": {"outputs": "float32"},
}


def _method_problems(name, signature):
    if signature.kind == "predict":
        return
    if signature.kind not in _METHODS:
        yield f"{name}: unknown method {signature.method!r}"
        return
    inputs = {key: spec.dtype for key, spec in signature.inputs.items()}
    outputs = {key: spec.dtype for key, spec in signature.outputs.items()}
    if inputs != {"inputs": "string"}:
        yield f"{name}: a {signature.kind} signature takes one input, `inputs` (serialised tf.Examples), not {inputs}"
    if outputs != _METHODS[signature.kind]:
        yield f"{name}: a {signature.kind} signature gives {_METHODS[signature.kind]}, not {outputs}"
