"""Export a model for TensorFlow Serving: one SavedModel from raw strings to answers.

    python recipes/export.py --model runs/reviews --output saved_models/reviews

Writes the next version, saved_models/reviews/1, then 2, …; a server that watches the directory never sees half of one.
Every model can be exported: classifiers, regressors, span extractors, taggers, multiple choice, pre-trained models
(fill-mask, next sentence) and encoders. A version holds the SavedModel with the signatures of its task, warm-up
requests, batching parameters and a card with these settings and the metrics that the run left in metrics.json; it is
audited before it appears. docs/serving.md goes on from here.
"""

import argparse
import json
import pathlib

from flags import (
    add_flags,
    add_stored_flags,
    command,
    plain_errors,
    positive_int,
    settings_of,
    source,
    stored_options,
)

from kbert.files import read_json
from kbert.weights.formats.kbert.read import MANIFEST, WEIGHTS, is_kbert_directory


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="SOURCE", type=source, required=True,
                        help="kbert directory, or the output of a recipe")  # fmt: skip
    add_flags(parser, "output", output={"help": "directory of the model's versions, such as saved_models/NAME"})
    parser.add_argument("--version", metavar="N", type=positive_int,
                        help="version number (default: one more than the highest in --output)")  # fmt: skip
    parser.add_argument("--task", metavar="NAME", help="serve it for another task, such as encoder (default: its own)")
    parser.add_argument("--sequence-length", metavar="N", type=positive_int,
                        help="tokens of a text, pair or window (default: the model's)")  # fmt: skip
    parser.add_argument("--top-k", metavar="N", type=positive_int,
                        help="tokens to propose for each [MASK] (default: the model's)")  # fmt: skip
    add_stored_flags(parser)
    parser.add_argument("--layers", metavar="N", type=int, nargs="+",
                        help="of an encoder, the hidden states that `features` gives: 0 the embeddings, -1 the last "
                             "(default: the last four)")  # fmt: skip
    parser.add_argument("--max-request-bytes", metavar="N", type=positive_int, default=2**20,
                        help="the most bytes of text in a request; more are refused (default: 1048576)")  # fmt: skip
    parser.add_argument("--max-request-tokens", metavar="N", type=positive_int, default=2**17,
                        help="the most tokens that the model runs for a request: rows, or windows of long texts, times "
                             "the sequence length (default: 131072)")  # fmt: skip
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert

        model = kbert.load_pretrained(args.model, task=args.task)
        pipeline = kbert.build_pipeline(
            model, sequence_length=args.sequence_length, top_k=args.top_k, **stored_options(args)
        )
        path = kbert.export(
            pipeline, args.output, version=args.version, layers=args.layers,
            max_request_bytes=args.max_request_bytes, max_request_tokens=args.max_request_tokens,
            metrics=read_metrics(args.model),
            made_by=made_by(args),
        )  # fmt: skip
    report(path)


def made_by(args):
    """These settings, the hash of the weights, and what the manifest of the model says of the run that made it."""
    made_by = {"recipe": "export.py"} | settings_of(args) | {"model": args.model.resolve().name}
    if is_kbert_directory(args.model):
        manifest = read_json(args.model / MANIFEST)
        made_by |= {"weights_sha256": manifest["files"][WEIGHTS]["sha256"], "run": manifest.get("made_by") or {}}
    return made_by


def read_metrics(model):
    """The metrics.json that a recipe wrote beside model/, or in it; {} where there is none."""
    for path in (model / "metrics.json", model.parent / "metrics.json"):
        if model.is_dir() and path.is_file():
            return read_json(path)
    return {}


def report(path: pathlib.Path):
    """What was written, and how to ask it."""
    card = read_json(path / "card.json")
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Wrote {path} ({size / 1e6:.1f} MB).")
    for name, signature in card["signatures"].items():
        print(f"{name}: {', '.join(signature['inputs'])} -> {', '.join(signature['outputs'])}")
    inputs = card["signatures"]["serving_default"]["example"]["body"]["inputs"]
    columns = ", ".join(f"{name}=tf.constant({json.dumps(value)})" for name, value in inputs.items())
    print("With Docker:")
    print(f"    docker run --rm -p 8501:8501 -v {path.parent}:/models/{card['name']} -e MODEL_NAME={card['name']} "
          "tensorflow/serving")  # fmt: skip
    print("Without, in Python, and without kbert:")
    print("    import tensorflow as tf, tensorflow_text")
    print(f'    serve = tf.saved_model.load("{path}").signatures["serving_default"]')
    print(f"    serve({columns})")


if __name__ == "__main__":
    command(main)
