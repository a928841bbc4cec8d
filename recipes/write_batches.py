"""Write the batches of a pre-training as NumPy files, for GPU machines that have JAX but not TensorFlow.

    python recipes/prepare_records.py --corpus 'corpus/*.txt' --vocab vocab.txt --output records
    python recipes/write_batches.py --records records --steps 10000 --batch-size 256 --output batches
    KERAS_BACKEND=jax python recipes/pretrain_on_batches.py --batches batches --size base --output runs/base

The batches are those on which pretrain.py trains with the same settings, in the same order, with the pairs and masks of
every epoch. As in pretrain.py, rows are packed by default if that pays off (--packed, --no-packed). --output appears
when it is complete; it holds the .npz files, their hashes in batches.json, and vocab.txt.
"""

import json

from kbert.command_line import add_flags, make_parser, plain_errors, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add_flags(
        parser,
        *("records", "output", "steps", "batch-size", "sequence-length", "seed", "max-predictions", "whole-word"),
        *("no-next-sentence", "packed", "fill-rows", "evaluation-batches", "json", "overwrite"),
        records={"required": True},
        output={"help": "a new directory, which appears when it is complete"},
        steps={"required": True, "help": "number of batches, one for each weight update"},
        batch_size={"help": "rows of a batch"},
        seed={"help": "determines pairs, masks and their order"},
        json={"help": "print batches.json on the last line"},
        overwrite={"help": "replace the batches in --output"},
    )
    parser.add_argument(
        "--batches-per-file", type=positive_int, default=100, metavar="N", help="batches in a file (default: 100)"
    )
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    as_json, output = arguments.pop("json"), arguments.pop("output")
    with plain_errors():
        from kbert.pretraining.run.write_batches import write_batches

        manifest = write_batches(arguments.pop("records"), output, **arguments)
    size = sum(file["bytes"] for file in manifest["files"])
    print(f"{manifest['steps']:,} batches, {size / 1e6:,.1f} MB, in {output}")
    if as_json:
        print(json.dumps(manifest))


if __name__ == "__main__":
    run_program(main)
