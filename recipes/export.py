"""Export a model for TensorFlow Serving: one SavedModel from raw strings to answers.

    python recipes/export.py --model runs/reviews --output saved_models/reviews
    python recipes/export.py --model runs/reviews --task encoder --output saved_models/embeddings

The recipe writes the next version: saved_models/reviews/1, then 2, and so on. A server that watches the directory never
sees an incomplete version. Every model can be exported: classifiers, regressors, span extractors, taggers, multiple
choice, pre-trained models (fill-mask, next sentence) and encoders. A version holds the SavedModel with the signatures
of its task, warm-up requests, batching parameters, and a model card with these settings and the metrics from the run's
metrics.json. It is audited before it appears. See docs/serving.md.
"""

import json

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    output = {"help": "directory of the model's versions, such as saved_models/NAME"}
    length = {"default": None, "help": "tokens of a row (default: the model's)"}
    names = ("model", "output", "sequence-length", "top-k", "window-pooling", "null-threshold")
    cli.add_flags(parser, *names, output=output, sequence_length=length)
    number = "version number (default: one more than the highest)"
    parser.add_argument("--version", metavar="N", type=cli.positive_int, help=number)
    parser.add_argument("--task", metavar="NAME", help="the task to serve, such as encoder (default: the model's own)")
    about = "hidden states in an encoder's signature `features`; 0: embeddings, -1: last layer (default: the last four)"
    parser.add_argument("--layers", metavar="N", type=int, nargs="+", help=about)
    about = "of weights and computation; bfloat16 takes half the space and changes the third digit (default: float32)"
    parser.add_argument("--precision", choices=["float32", "bfloat16"], help=about)
    about = "store weights as constants: short texts are faster on a CPU, but loading takes more time and memory"
    parser.add_argument("--frozen-weights", action="store_true", help=about)
    for name, most, what in (
        ("bytes", 2**20, "the maximum number of bytes of text in a request"),
        ("tokens", 2**17, "the maximum number of tokens run for a request, rows or windows times sequence length"),
    ):
        about = f"{what}; larger requests are refused (default: {most})"
        parser.add_argument(f"--max-request-{name}", metavar="N", type=cli.positive_int, default=most, help=about)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        import kbert

        model = kbert.load_pretrained(args.model, task=args.task)
        options = cli.given(args, "sequence_length", "top_k") | cli.stored_options(args)
        pipeline = kbert.build_pipeline(model, **options)
        names = ("version", "layers", "precision", "frozen_weights", "max_request_bytes", "max_request_tokens")
        made_by = {"recipe": "export.py", **cli.settings_of(args, "model")}
        path = kbert.export(pipeline, args.output, made_by=made_by, **cli.given(args, *names))
    report(path)


def report(path):
    """Prints what was written, and how to query it."""
    card = json.loads((path / "card.json").read_text("utf-8"))
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"Wrote {path} ({size / 1e6:.1f} MB).")
    for name, signature in card["signatures"].items():
        print(f"{name}: {', '.join(signature['inputs'])} -> {', '.join(signature['outputs'])}")
    inputs = card["signatures"]["serving_default"]["example"]["body"]["inputs"]
    columns = ", ".join(f"{name}=tf.constant({json.dumps(value)})" for name, value in inputs.items())
    mount = f"-p 8501:8501 -v {path.parent}:/models/{card['name']} -e MODEL_NAME={card['name']}"
    print(f"With Docker:\n    docker run --rm {mount} tensorflow/serving")
    print("In Python, without kbert:\n    import tensorflow as tf, tensorflow_text")
    print(f'    serve = tf.saved_model.load("{path}").signatures["serving_default"]\n    serve({columns})')


if __name__ == "__main__":
    cli.run_program(main)
