"""Convert a BERT checkpoint from one library's format to another's, including heads, and compare the outputs.

    python recipes/convert_checkpoint.py --from uncased_L-12_H-768_A-12 --to huggingface --output bert-base
    python recipes/convert_checkpoint.py --from bert-base --to kbert --output models/bert-base --report report.json

--from is a kbert directory or the output of a recipe; a Hugging Face directory (config.json with model.safetensors or
pytorch_model.bin); the directory or prefix of Google's TensorFlow checkpoint (bert_config.json with bert_model.ckpt.*);
a KerasHub preset; or a name on the Hugging Face hub. The format is recognised by its content.
--report writes a JSON file with every variable's name in both formats, and the largest differences between kbert's
outputs and those of the other library (if it is installed), for each layer and head, on random batches with padding:
for the files read and for the files written.

A model that a format cannot store is an error that states the reason. Weights are never changed, except by
--storage-dtype.
"""

import pathlib

from kbert.command_line import add_flags, existing_file, make_parser, model_source, plain_errors, run_program
from kbert.weights.formats.registry import format_names


def parse_arguments(argv):
    parser = make_parser(__doc__)
    parser.add_argument(
        "--from", metavar="SOURCE", dest="source", type=model_source, required=True, help="the checkpoint to read"
    )
    parser.add_argument("--to", dest="format", choices=format_names(), required=True, help="the format to write")
    output = {"help": "directory to write, which must be new or empty"}
    replace = {"help": "replace what an earlier conversion wrote to --output"}
    add_flags(parser, "output", "overwrite", output=output, overwrite=replace)
    parser.add_argument("--task", help="the task of the model to write (default: that of the checkpoint)")
    parser.add_argument("--no-pooler", action="store_true", help="drop a pooler that the task does not use")
    about = "a vocab.txt, for a checkpoint that has none or a wrong one"
    parser.add_argument("--vocab", metavar="FILE", type=existing_file, help=about)
    case = parser.add_mutually_exclusive_group()
    about = "the tokenizer keeps upper case (default: as stored in the checkpoint)"
    case.add_argument("--cased", dest="lowercase", action="store_false", default=None, help=about)
    case.add_argument(
        "--uncased", dest="lowercase", action="store_true", default=None, help="the tokenizer lower-cases"
    )
    about = "with --to kbert: type of the weights on disk; they are float32 when loaded (default: float32)"
    parser.add_argument("--storage-dtype", choices=("float32", "bfloat16", "float16"), help=about)
    parser.add_argument("--report", metavar="FILE", type=pathlib.Path, help="the report to write, as JSON")
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert
        from kbert.files import write_json
        from kbert.weights.diagnostics.parity import conversion_report

        overrides = {} if args.lowercase is None else {"lowercase": args.lowercase}
        overrides |= {"pooler": False} if args.no_pooler else {}
        model = kbert.load_pretrained(args.source, args.task, vocabulary=args.vocab, **overrides)
        if new := [row.variable for row in model.pretrained.report.newly_initialised]:
            raise ValueError(
                f"{args.source} has no weights for {new}, and a conversion adds none: choose another --task"
            )
        options = {"overwrite": args.overwrite, "storage_dtype": args.storage_dtype}
        kbert.save_pretrained(model, args.output, format=args.format, **options)
        print(f"Wrote {args.output}: a {model.task} model in the format {args.format}.")
        if args.report:
            report, lines = conversion_report(model, args.output)
            print("\n".join(lines))
            args.report.parent.mkdir(parents=True, exist_ok=True)
            write_json(args.report, report)
            print(f"Wrote {args.report}.")


if __name__ == "__main__":
    run_program(main)
