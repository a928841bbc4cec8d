"""Export a model for TensorFlow Serving: one SavedModel from raw strings to answers.

    python recipes/export.py --model runs/reviews --output saved_models/reviews

Writes the next version, saved_models/reviews/1, then 2, …; a server that watches the directory never sees half of one.
Models for classification and regression (single texts and pairs) and pre-trained models (fill-mask) can be exported.
"""

import argparse
import pathlib

from flags import add_flags, kbert_directory, plain_errors, positive_int


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="DIR", type=kbert_directory, required=True,
                        help="kbert directory, or the output of a recipe")  # fmt: skip
    add_flags(parser, "output", output={"help": "directory of the model's versions, such as saved_models/NAME"})
    parser.add_argument("--version", metavar="N", type=positive_int,
                        help="version number (default: one more than the highest in --output)")  # fmt: skip
    parser.add_argument("--sequence-length", metavar="N", type=positive_int,
                        help="tokens of a text or pair; longer ones are truncated (default: the model's)")  # fmt: skip
    parser.add_argument("--top-k", metavar="N", type=positive_int,
                        help="tokens to propose for each [MASK] (default: the model's)")  # fmt: skip
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert

        model = kbert.load_pretrained(args.model)
        pipeline = kbert.build_pipeline(model, sequence_length=args.sequence_length, top_k=args.top_k)
        path = kbert.export(pipeline, args.output, version=args.version)
    report(pipeline, path)


def report(pipeline, path: pathlib.Path):
    """What was written, and how to ask it."""
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    columns = ", ".join(f'{name}=tf.constant(["..."])' for name in pipeline.preprocessor.input_names)
    print(f"Wrote {path} ({size / 1e6:.1f} MB).")
    print(f"serving_default: {', '.join(pipeline.preprocessor.input_names)} -> {', '.join(pipeline.output)}")
    print("Without kbert, in Python:")
    print("    import tensorflow as tf, tensorflow_text")
    print(f'    serve = tf.saved_model.load("{path}").signatures["serving_default"]')
    print(f"    serve({columns})")


if __name__ == "__main__":
    main()
