"""Commands that serve a model, and ask a server."""

import json
import pathlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command
from kbert.finetuning.evaluate import not_as_stored
from kbert.options import NOT_RECORDED, Count, Positive, checked, record
from kbert.serving.export import check_int8_inputs
from kbert.serving.limits import MAX_REQUEST_BYTES, MAX_REQUEST_TOKENS


@checked
def export(
    source: Annotated[PathLike, NOT_RECORDED],
    output: Annotated[PathLike, NOT_RECORDED],
    *,
    task: str | None = None,
    version: Count | None = None,
    sequence_length: Count | None = None,
    pair: bool | None = None,
    top_k: Count | None = None,
    window_pooling: Literal["stored", "mean", "max", "off"] = "stored",
    null_threshold: Literal["stored", "off"] | float = "stored",
    layers: list[int] | None = None,
    precision: Literal["float32", "bfloat16", "int8"] | None = None,
    calibration: Annotated[PathLike | None, NOT_RECORDED] = None,
    evaluate: Annotated[PathLike | None, NOT_RECORDED] = None,
    frozen_weights: bool = False,
    max_request_bytes: Count = MAX_REQUEST_BYTES,
    max_request_tokens: Count = MAX_REQUEST_TOKENS,
) -> pathlib.Path:
    """Exports a model for TensorFlow Serving: one SavedModel from raw strings to answers.

    The next version is written: saved_models/reviews/1, then 2, and so on. A server that watches the directory never
    sees an incomplete version. It holds the SavedModel with the signatures of its task, warm-up requests, batching
    parameters, and a model card with these settings and the metrics of the run. It is audited before it appears.

    Args:
        source: the model.
        output: directory of the model's versions, such as saved_models/NAME.
        task: the task to serve, such as encoder; None: the model's own.
        version: None: one more than the highest.
        sequence_length: tokens of a row; None: the model's.
        pair: Whether texts come in pairs. Defaults to the model's own setting.
        top_k: how many tokens fill-mask proposes.
        window_pooling, null_threshold: see `kbert.evaluate`.
        layers: hidden states in an encoder's signature `features`; 0: embeddings, -1: last layer; None: the last four.
        precision: of weights and computation; bfloat16 takes half the space and changes the third digit. int8 is about
            twice as fast as float32 on x86-64, and needs `calibration`.
        calibration: file of about 128 texts for int8, read as by kbert predict. The command prints how far answers to
            them differ from float32.
        evaluate: file of labeled examples for int8, to score both precisions.
        frozen_weights: store weights as constants: short texts are faster on a CPU, but loading takes more time and
            memory.
        max_request_bytes: the maximum number of bytes of text in a request; larger requests are refused.
        max_request_tokens: the maximum number of tokens run for a request, rows or windows times sequence length.

    Returns:
        The path of the version.
    """
    settings = record(export, locals())
    check_int8_inputs(precision, calibration, evaluate)
    model = kbert.load_pretrained(source, task=task)
    pipeline = kbert.build_pipeline(
        model,
        sequence_length=sequence_length,
        pair=pair,
        top_k=top_k,
        **not_as_stored(window_pooling=window_pooling, null_threshold=null_threshold),
    )
    return kbert.export(
        pipeline,
        output,
        version,
        layers=layers,
        precision=precision,
        calibration=calibration,
        evaluate=evaluate,
        frozen_weights=frozen_weights,
        max_request_bytes=max_request_bytes,
        max_request_tokens=max_request_tokens,
        made_by={"recipe": "kbert export", **settings},
    )


def report_export(path: pathlib.Path) -> None:
    card = json.loads((path / "card.json").read_text("utf-8"))
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Wrote {path} ({size / 1e6:.1f} MB).")
    for name, signature in card["signatures"].items():
        print(f"{name}: {', '.join(signature['inputs'])} -> {', '.join(signature['outputs'])}")
    for name, joined in card.get("joined_columns", {}).items():
        print(f"{name} is {', '.join(joined['names'])}, joined by {joined['separator']!r}")
    inputs = card["signatures"]["serving_default"]["example"]["body"]["inputs"]
    columns = ", ".join(f"{name}=tf.constant({json.dumps(value)})" for name, value in inputs.items())
    mount = f"-p 8501:8501 -v {path.parent}:/models/{card['name']} -e MODEL_NAME={card['name']}"
    print(f"With Docker:\n    docker run --rm {mount} tensorflow/serving")
    print("In Python, without kbert:\n    import tensorflow as tf, tensorflow_text")
    print(f'    serve = tf.saved_model.load("{path}").signatures["serving_default"]\n    serve({columns})')


@checked
def audit(directories: list[str]) -> list:
    """Checks that a stock TensorFlow Serving can run a SavedModel, before it is deployed.

    The report lists every op with the servers that link it, the signatures, and every problem: ops that no stock server
    has, lookup tables, Python, XLA, a first dimension that is not the batch. The exit status is 1 if there are
    problems. The model is read, not run. An audit is not a sandbox: load only SavedModels that you trust.

    Args:
        directories: of versions, or of models, of which the highest version is read.

    Returns:
        The reports.
    """
    return [kbert.audit(directory) for directory in directories]


def report_audits(reports: list) -> None:
    for report in reports:
        print("\n".join(report.lines()))


def audits_as_json(reports: list) -> list[dict[str, Any]]:
    return [
        {
            "path": str(report.path),
            "ops": report.ops,
            "servers": report.servers,
            "signatures": {
                name: {"kind": s.kind, "inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
                for name, s in report.signatures.items()
            },
            "problems": report.problems,
        }
        for report in reports
    ]


@checked
def query(
    model: str,
    texts: Sequence[str] = (),
    *,
    input: PathLike | None = None,
    batch_size: Count = 32,
    url: str = "http://localhost:8501",
    root_certificates: PathLike | None = None,
    client_certificate: list[str] | None = None,
    version: Count | None = None,
    label: str | None = None,
    signature: str = "serving_default",
    timeout: Positive = 10.0,
    tries: Count = 3,
) -> list[dict[str, Any]]:
    """Queries a model on a TensorFlow Serving server, and shows the curl line of the same request.

    Answers are printed as one JSON object per row, without the padding of the server's lists; the curl command is
    printed on standard error. The signatures classify and regress are sent tf.Examples, as TensorFlow Serving requires.

    Args:
        model: the model's name on the server.
        texts: single texts.
        input: for other inputs, such as pairs or questions: a file with a JSON object per line, whose keys are the
            columns of the signature.
        batch_size: rows of `input` per request.
        url: http://host:8501, or https:// with TLS.
        root_certificates: PEM file of the certificate authorities to trust; None: the public ones.
        client_certificate: PEM files of certificate and key, which authenticate the client.
        version: None: the server's choice.
        label: a version label, such as stable, instead of `version`.
        signature: of the model.
        timeout: seconds to wait for a connection, and then for each part of the answer.
        tries: attempts if the server cannot be reached or is busy.

    Returns:
        The answers.
    """
    from kbert.serving.client import ServingClient, ask, read_json_rows

    if bool(texts) == bool(input):
        raise ValueError("query: expected either texts or `input`")
    rows = read_json_rows(pathlib.Path(input)) if input else [{"text": text} for text in texts]
    certificate = client_certificate and tuple(client_certificate)
    client = ServingClient(url, model, version, label, timeout, tries, root_certificates, certificate)
    answers = []
    for answer in ask(client, rows, signature, batch_size):
        print(json.dumps(answer, ensure_ascii=False), flush=True)
        answers.append(answer)
    return answers


COMMANDS = {
    "export": Command(
        verb=export,
        report=report_export,
        epilog="kbert export --source runs/reviews --output saved_models/reviews",
    ),
    "audit": Command(
        verb=audit,
        positional=("directories",),
        report=report_audits,
        as_json=audits_as_json,
        failed=lambda reports: any(report.problems for report in reports),
    ),
    "query": Command(
        verb=query,
        positional=("texts",),
        epilog='kbert query "A charming journey." "A mess." --url http://localhost:8501 --model reviews',
    ),
}
