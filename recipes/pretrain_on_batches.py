"""Pre-train BERT on batches written by write_batches.py, with Keras on JAX and without TensorFlow.

    python recipes/write_batches.py --records records --steps 10000 --batch-size 256 --output batches
    KERAS_BACKEND=jax python recipes/pretrain_on_batches.py --batches batches --size base --output runs/base

Run the first command where TensorFlow is installed, and the second on the machine with the GPUs or TPUs, which needs
JAX but not TensorFlow (docs/training.md). The training steps are those of pretrain.py; all GPUs or TPU cores that JAX
finds share a batch. A killed run resumes from its last checkpoint when the same command is given again. In --output
there are model/, which all recipes take as --init or --model under KERAS_BACKEND=tensorflow (predict.py, export.py
...), metrics.json, settings.json, inputs.json, history.jsonl, logs/ (if TensorBoard is installed) and, until the run is
finished, checkpoints/.
"""

import json

from kbert.command_line import add_flags, existing_directory, make_parser, plain_errors, run_program
from kbert.command_line.flag_table import EVALUATED_CHECKPOINTS, MACHINE


def parse_arguments(argv):
    parser = make_parser(__doc__)
    parser.add_argument(
        "--batches", metavar="DIR", type=existing_directory, required=True, help="directory that write_batches.py wrote"
    )
    add_flags(
        parser,
        *("size", "init", "output", "steps", "learning-rate", "warmup-steps", "weight-decay", "seed", "dropout"),
        *("accumulate", "log-every", "checkpoint-every", *MACHINE, "xla", "log-dir", "profile", "json"),
        *("overwrite", "dry-run"),
        steps={"help": "number of weight updates (default: one for each batch)"},
        learning_rate={"default": 1e-4},
        checkpoint_every=EVALUATED_CHECKPOINTS,
    )
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    batches, as_json = arguments.pop("batches"), arguments.pop("json")
    with plain_errors():
        from kbert.pretraining.run.pretrain_on_batches import describe_batches, pretrain_on_batches
        from kbert.training.dry_run import format_estimate

        print(describe_batches(batches))
        run = pretrain_on_batches(batches, **arguments)
    if arguments["dry_run"]:
        print(format_estimate(run.metrics))
        return
    print(f"\nheld-out: loss {run.metrics['loss']:.3f}, accuracy on masked tokens {run.metrics['mlm_accuracy']:.1%}")
    print(f"{run.metrics['minutes']:.1f} minutes; the model is in {run.path / 'model'}")
    if as_json:
        print(json.dumps(run.metrics))


if __name__ == "__main__":
    run_program(main, resumes=True)
