"""Convert a BERT from one library's files to another's, heads included, and show that it is the same model.

    python recipes/convert_checkpoint.py --from uncased_L-12_H-768_A-12 --to huggingface --output bert-base
    python recipes/convert_checkpoint.py --from bert-base --to kbert --output models/bert-base --report report.json

--from: a kbert directory or the output of a recipe; a Hugging Face directory (config.json with model.safetensors or
pytorch_model.bin); Google's TensorFlow checkpoint (bert_config.json with bert_model.ckpt.*), its directory or prefix; a
KerasHub preset; or a name on the Hugging Face hub. What it is, is recognised by its content.
--report: a JSON file with every variable's name on both sides, and the largest differences between kbert's outputs and
those of the other library (where it is installed), layer by layer and head by head, on random batches with padding: for
what was read and for what was written.

What a format cannot hold is refused with the reason. Numbers are moved, never changed.
"""

import argparse
import pathlib

from flags import add_flags, command, plain_errors
from flags import file as existing_file

from kbert.weights.formats.registry import format_names


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", metavar="PATH", dest="source", required=True, help="the checkpoint to read")
    parser.add_argument("--to", metavar="FORMAT", dest="format", choices=format_names(), required=True,
                        help=f"the format to write: {', '.join(format_names())}")  # fmt: skip
    add_flags(parser, "output", "overwrite", output={"help": "directory to write: new, or empty"},
              overwrite={"help": "replace what an earlier conversion wrote to --output"})  # fmt: skip
    parser.add_argument("--task", help="the model to make of it (default: the one the checkpoint holds)")
    parser.add_argument("--no-pooler", action="store_true", help="leave out a pooler that has no part in the task")
    parser.add_argument("--vocab", metavar="FILE", type=existing_file,
                        help="vocab.txt, for a checkpoint that has none, or a wrong one")  # fmt: skip
    case = parser.add_mutually_exclusive_group()
    case.add_argument("--cased", dest="lowercase", action="store_false", default=None,
                      help="the tokenizer keeps the letter case (default: as the checkpoint says)")  # fmt: skip
    case.add_argument("--uncased", dest="lowercase", action="store_true", default=None, help="it lower-cases")
    parser.add_argument("--report", metavar="FILE", type=pathlib.Path, help="where the report goes, as JSON")
    return parser.parse_args(argv)


def load(args):
    """The model of the checkpoint."""
    import kbert

    overrides = {} if args.lowercase is None else {"lowercase": args.lowercase}
    if args.no_pooler:
        overrides["pooler"] = False
    model = kbert.load_pretrained(args.source, args.task, vocabulary=args.vocab, **overrides)
    if model.pretrained.report.newly_initialised:
        names = [row.variable for row in model.pretrained.report.newly_initialised]
        raise ValueError(f"{args.source} has no weights for {names}. A conversion invents none: choose another --task")
    return model


def write_report(args, model):
    """Both sides' names and the parity with both sides' libraries, printed and written."""
    import kbert
    from kbert.files import write_json
    from kbert.weights.diagnostics.parity import measure_parity
    from kbert.weights.report import LoadReport

    def parity(of, path):
        report = measure_parity(of, path)
        print("\n".join(report.lines()))
        return report.to_dict()

    read: LoadReport = model.pretrained.report
    print("\n".join(read.table()))
    written = kbert.load_pretrained(args.output)
    report = {
        "read": {**read.to_dict(), "parity": parity(model, read.source)},
        "written": {**written.pretrained.report.to_dict(), "parity": parity(written, args.output)},
    }
    args.report.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.report, report)
    print(f"Wrote {args.report}.")


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert

        model = load(args)
        kbert.save_pretrained(model, args.output, format=args.format, overwrite=args.overwrite)
        print(f"Wrote {args.output}: a {model.task} model in the format {args.format}.")
        if args.report:
            write_report(args, model)


if __name__ == "__main__":
    command(main)
