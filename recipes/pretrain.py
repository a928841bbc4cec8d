"""Pre-train BERT on text: masked language model and next sentence prediction, as in section 3.1 and A.2 of the paper.

    python recipes/learn_vocabulary.py --corpus 'corpus/*.txt' --size 30522 --output vocab.txt
    python recipes/pretrain.py --corpus 'corpus/*.txt' --vocab vocab.txt --steps 10000 --learning-rate 1e-3 \\
        --output runs/tiny

or, reading text that was tokenised once (recipes/prepare_records.py), --records DIR instead of --corpus and --vocab.
The paper's own run is --size base --settings paper --steps 1000000; for hours on one machine take --settings
small-budget --hours 2 (docs/pretraining.md). A killed run resumes from its last checkpoint when the same command is
given again, with the same inputs. --output receives model/ (a kbert directory: what --init takes),
metrics.json, settings.json, inputs.json (sizes and hashes), history.jsonl, logs/ (TensorBoard) and, until the run is
finished, checkpoints/. --dry-run estimates steps, memory and time, and trains nothing.
"""

import argparse
import json

from flags import MACHINE, add_flags, command, plain_errors, positive_float, positive_int, rate, share


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    add_flags(source, "corpus", "records", corpus={"help": "text files, compressed or not; see docs/data.md"})
    vocabulary = {"help": "vocab.txt; --init and --records have their own"}
    cased = {"help": "with --vocab: do not lower-case or strip accents"}
    add_flags(parser, "vocab", "cased", "size", "init", "output", vocab=vocabulary, cased=cased)
    add, share_of = parser.add_argument, {"type": share, "metavar": "X"}
    settings = "defaults for the flags that are not given; see docs/pretraining.md"
    add("--settings", choices=("paper", "small-budget"), help=settings)
    long = parser.add_mutually_exclusive_group(required=True)
    add_flags(long, "steps", steps={"help": "weight updates"})
    hours = "instead of --steps: train that long; warm-up, decay and phases are shares of the time"
    long.add_argument("--hours", type=positive_float, metavar="X", help=hours)
    phases = """instead of --sequence-length: parts of the run, as 128:0.9 512:0.1 (the paper's), with :BATCH_SIZE and
        :MAX_PREDICTIONS after it if they differ"""
    add("--phases", nargs="+", metavar="LENGTH:SHARE", help=phases)
    length = {"default": None, "help": "tokens of a pair (default: 128)"}
    size = {"default": None, "help": "pairs an update, over all replicas (default: 32)"}
    add_flags(parser, "sequence-length", "batch-size", sequence_length=length, batch_size=size)
    ramp = "begin with batches of SIZE and double them up to --batch-size within this share of the run, as 8:0.3"
    add("--batch-size-ramp", metavar="SIZE:SHARE", help=ramp)
    execution = "of Keras: steps between two looks of Python; logs are the same (default: 1)"
    add("--steps-per-execution", type=positive_int, default=1, metavar="N", help=execution)
    rematerialize = "compute activations again for the gradient instead of keeping them: less memory, more time"
    add("--rematerialize", action="store_true", help=rematerialize)
    optimizer = "lamb for batches of thousands (default: adamw)"
    add("--optimizer", choices=("adamw", "lamb"), default="adamw", help=optimizer)
    peak, correction = (
        {"help": "the peak, after the warm-up (default: 1e-4)"},
        {"action": argparse.BooleanOptionalAction},
    )
    names = ("accumulate", "learning-rate", "warmup-steps", "bias-correction", "layer-decay", "seed")
    add_flags(parser, *names, learning_rate=peak, bias_correction=correction)
    warmup = "instead of --warmup-steps: of --steps or --hours (default: a tenth of --hours)"
    add("--warmup-share", type=rate, metavar="X", help=warmup)
    schedule = """of the learning rate after the warm-up: linear to 0, as the paper; constant: the same command with
        more --steps (and the same --warmup-steps) extends a run, which keeps its last checkpoint (default: linear)"""
    add("--schedule", choices=("linear", "constant"), default="linear", help=schedule)
    add_flags(parser, "max-predictions", "whole-word")
    add("--mask-rate", type=rate, metavar="X", help="of all tokens, predicted (default: 0.15)")
    add("--mask-token-rate", help="of the predicted tokens, become [MASK] (default: 0.8)", **share_of)
    add("--keep-rate", help="of these, stay as they are (default: 0.1)", **share_of)
    add("--random-token-rate", help="of these, become random tokens (default: 0.1)", **share_of)
    add("--span-length", type=positive_int, metavar="N", help="mask spans of N tokens as a whole")
    dupe_factor = "the same pairs and masks again after N epochs, as the original's files after 10 (default: never)"
    add("--dupe-factor", type=positive_int, metavar="N", help=dupe_factor)
    add("--random-next-rate", help="of pairs with a random second segment (default: 0.5)", **share_of)
    positions = "of new weights (default: learned; sinusoidal: as in the Transformer)"
    add("--position-embedding", choices=("learned", "sinusoidal"), help=positions)
    starts = "of learned positions (default: normal; sinusoidal: they start as the Transformer's)"
    add("--position-initializer", choices=("normal", "sinusoidal"), help=starts)
    add("--initializer-stddev", type=positive_float, metavar="X", help="of new weights (default: 0.02)")
    add("--left-to-right", action="store_true", help='every token predicts the next: the "LTR" of section 5.1')
    often = {"default": 500, "help": "also evaluates; a multiple of --log-every"}
    names = ("no-next-sentence", "dropout", "packed", "held-out", "evaluation-batches", "log-every", "checkpoint-every")
    add_flags(parser, *names, checkpoint_every=often)
    keep_every = "a multiple of --checkpoint-every: keep its checkpoints; --init RUN@STEP takes one"
    add("--keep-every", type=positive_int, metavar="STEPS", help=keep_every)
    service = "HOST:PORT of recipes/serve_data.py, which makes the training batches; with --records"
    add("--data-service", metavar="ADDRESS", help=service)
    add_flags(parser, *MACHINE, "xla", "log-dir", "profile", "json", "overwrite", "dry-run")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    corpus, records, as_json = (arguments.pop(name) for name in ("corpus", "records", "json"))
    with plain_errors():
        import kbert
        from kbert.tasks.pretraining.table import describe_plan, describe_run

        run = kbert.pretrain(records or corpus, **arguments)
    print(describe_plan(run.metrics) if arguments["dry_run"] else describe_run(run))
    if as_json:
        print(json.dumps(run.metrics))


if __name__ == "__main__":
    command(main, resumes=True)
