"""Check that a stock TensorFlow Serving can run a SavedModel, before it is deployed.

    python recipes/audit_saved_model.py saved_models/reviews
    python recipes/audit_saved_model.py path/to/any/saved_model/3 --json

The report lists every op with the servers that link it, the signatures, and every problem: ops that no stock server
has, lookup tables, a first dimension that is not the batch, weights that are stored twice, warm-up requests that do not
match the signatures. The exit status is 1 if there are problems. The model is read, not run. The directory is that of a
version, or of a model; then the highest version is read.
"""

import json
import pathlib
import sys

from kbert.command_line import add_flags, make_parser, plain_errors, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    parser.add_argument(
        "directories", metavar="DIR", nargs="+", type=pathlib.Path, help="directory of a SavedModel or of its versions"
    )
    add_flags(parser, "json", json={"help": "print one JSON object per directory"})
    return parser.parse_args(argv)


def as_json(report):
    """The report as one line."""
    signatures = {
        name: {"kind": s.kind, "inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
        for name, s in report.signatures.items()
    }
    fields = {"path": str(report.path), "ops": report.ops, "servers": report.servers}
    return json.dumps(fields | {"signatures": signatures, "problems": report.problems})


def main(argv=None):
    args = parse_arguments(argv)
    clean = True
    for directory in args.directories:
        with plain_errors():
            import kbert

            report = kbert.audit(directory)
        print(as_json(report) if args.json else "\n".join(report.lines()))
        clean = clean and not report.problems
    if not clean:
        sys.exit(1)


if __name__ == "__main__":
    run_program(main)
