"""Would a stock TensorFlow Serving run this SavedModel?

From top to bottom: the report, then checks of the graph and of the signatures.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from kbert.aliases import PathLike
from kbert.keras_compat import is_tensorflow_op
from kbert.options import checked
from kbert.serving.saved_model_file import SavedModelFile, Signature, find_export
from kbert.serving.server_ops import INT8_OPS, ROLE_OPS, TEXT_OPS, forbidden

_OLDEST = "2.12"  # the oldest server that kbert's exports run in


@dataclasses.dataclass(frozen=True)
class AuditReport:
    """The result of `audit`.

    Attributes:
        path: the version that was read.
        ops: dict of op → how often it occurs in the graph and its functions.
        servers: dict of each op that is not TensorFlow's own, or is its int8 product → first server that links it, or
            None.
        signatures: dict of name → `kbert.serving.Signature`.
        problems: list of str; empty if a stock server runs the model.

    Raises:
        ValueError: on `require_clean`, if there are problems.
    """

    path: pathlib.Path
    ops: dict[str, int]
    servers: dict[str, str | None]
    signatures: dict[str, Signature]
    problems: list[str]

    @property
    def oldest_server(self) -> str:
        """The release of the oldest server that runs the model if there are no problems, such as "2.12"."""
        return max((_OLDEST, *(INT8_OPS[op] for op in self.ops if op in INT8_OPS)), key=_number)

    def lines(self) -> Iterator[str]:
        """The report as text, line by line."""
        yield f"{self.path}: {len(self.ops)} ops, {len(self.signatures)} signatures"
        core = sorted(op for op in self.ops if op not in self.servers)
        where = f"in every server since {_OLDEST} unless named below"
        yield f"  core TensorFlow ({len(core)}, {where}): {' '.join(core)}"
        for op, since in sorted(self.servers.items()):
            servers = f"tensorflow_model_server {since} and later" if since else "no stock server"
            yield f"  {op:40s} {servers}"
        for name, signature in self.signatures.items():
            tensors = f"{', '.join(signature.inputs)} -> {', '.join(signature.outputs)}"
            yield f"  signature {name:20s} {signature.kind}: {tensors}"
        for problem in self.problems:
            yield f"  PROBLEM {problem}"
        if not self.problems:
            where = " on x86-64" if INT8_OPS.keys() & self.ops.keys() else ""
            yield f"  A stock tensorflow_model_server {self.oldest_server} or later{where} runs it."

    def require_clean(self) -> None:
        """Raises a ValueError with all problems, if there are any."""
        if self.problems:
            raise ValueError(f"audit of {self.path}: " + "; ".join(self.problems))


@checked
def audit(saved_model: PathLike) -> AuditReport:
    """Checks that a stock TensorFlow Serving can run an exported SavedModel.

    The model is read, not run. These are checked:

    - Every op of every function computes, and is linked into the stock servers since 2.12, or since 2.17 for int8.
      Lookup tables, Python, XLA and access to files are problems. Only the functions that save and restore the
      variables may use files.
    - The signatures include a default, have the batch as first dimension everywhere, and use no names that REST
      reserves.

    An audit finds mistakes. It is not a sandbox: a graph that was built to deceive it may pass. Load only SavedModels
    that you trust.

    Args:
        saved_model: path of one version (``saved_models/NAME/1``), or ``saved_models/NAME``: its highest version.

    Returns:
        `AuditReport`.

    Raises:
        FileNotFoundError: there is no SavedModel.
        ValueError: `saved_model` is not a path, or the file is damaged.

    Source: tensorflow/serving, model_servers/BUILD (SUPPORTED_TENSORFLOW_OPS).

    Example::

        report = kbert.audit("saved_models/reviews")
        report.require_clean()
    """
    path = find_export(saved_model) or pathlib.Path(saved_model)
    model = SavedModelFile(path)
    ops = dict(sorted(model.ops().items()))
    since = TEXT_OPS | INT8_OPS
    servers = {op: since.get(op) for op in ops if op in since or not is_tensorflow_op(op)}
    problems = [*_op_problems(model, servers), *_signature_problems(model.signatures)]
    return AuditReport(path, ops, servers, model.signatures, problems)


# Each of the following checks yields problems, as sentences.


def _op_problems(model: SavedModelFile, servers: dict[str, str | None]) -> Iterator[str]:
    refused = {op for role, body in model.bodies() for op in body if op not in ROLE_OPS[role]}
    for op in sorted(refused):
        if op in servers:
            since = servers[op]
            if since is None:
                yield f"{op} is in no stock server"
            elif op not in INT8_OPS and _number(since) > _number(_OLDEST):
                yield f"{op} is in no server before {since}"
        elif reason := forbidden(op):
            yield f"{op} {reason}"
    for name in model.compiled_functions():
        yield f"the function {name} is compiled by XLA, which has no strings"
    for name in model.asset_names():
        yield f"the graph reads the file assets/{name}"
    for file in sorted(model.path.glob("saved_model.*")):
        if file.name != "saved_model.pb":
            yield f"{file.name} stands beside saved_model.pb, and a loader may read it instead"


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _signature_problems(signatures: dict[str, Signature]) -> Iterator[str]:
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


_OUTPUTS = {  # kind → its outputs
    "classify": {"classes": "string", "scores": "float32"},
    "regress": {"outputs": "float32"},
}


def _method_problems(name: str, signature: Signature) -> Iterator[str]:
    kind = signature.kind
    if kind == "predict":
        return
    if kind not in _OUTPUTS:
        yield f"{name}: unknown method {signature.method!r}"
        return
    inputs = {key: spec.dtype for key, spec in signature.inputs.items()}
    outputs = {key: spec.dtype for key, spec in signature.outputs.items()}
    if inputs != {"inputs": "string"}:
        yield f"{name}: a {kind} signature takes one input, `inputs` (serialised tf.Examples), not {inputs}"
    if outputs != _OUTPUTS[kind]:
        yield f"{name}: a {kind} signature gives {_OUTPUTS[kind]}, not {outputs}"
