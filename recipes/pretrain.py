"""Pre-train BERT on text: masked language model and next sentence prediction, as in sections 3.1 and A.2 of the paper.

    python recipes/learn_vocabulary.py --corpus 'corpus/*.txt' --size 30522 --output vocab.txt
    python recipes/pretrain.py --corpus 'corpus/*.txt' --vocab vocab.txt --steps 10000 --learning-rate 1e-3 \\
        --output runs/tiny

Instead of --corpus and --vocab, --records DIR reads text that was tokenised once (recipes/prepare_records.py).
The paper's own run is --size base --settings paper --steps 1000000; for a few hours on one machine use --settings
small-budget --hours 2 (docs/pretraining.md). A killed run resumes from its last checkpoint when the same command is
given again, with the same inputs. In --output there are model/ (a kbert directory, which --init takes),
metrics.json, settings.json, inputs.json (sizes and hashes), history.jsonl, logs/ (TensorBoard) and, until the run is
finished, checkpoints/. --dry-run estimates steps, memory and time, and trains nothing.
"""

import argparse
import json

import flags


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    flags.add_flags(source, "corpus", "records", corpus={"help": "text files; docs/data.md describes the formats"})
    vocabulary = {"help": "the vocabulary, a vocab.txt; --init and --records have their own"}
    cased = {"help": "with --vocab: do not lower-case the text or strip accents"}
    flags.add_flags(parser, "vocab", "cased", "size", "init", "output", vocab=vocabulary, cased=cased)
    add, share_of = parser.add_argument, {"type": flags.share, "metavar": "X"}
    settings = "a set of defaults for the flags that are not given; see docs/pretraining.md"
    add("--settings", choices=("paper", "small-budget"), help=settings)
    long = parser.add_mutually_exclusive_group(required=True)
    flags.add_flags(long, "steps", steps={"help": "number of weight updates"})
    hours = "instead of --steps: hours to train; warm-up, decay and phases are shares of this time"
    long.add_argument("--hours", type=flags.positive_float, metavar="X", help=hours)
    phases = """instead of --sequence-length: lengths and their shares of the run, such as the paper's 128:0.9 512:0.1;
        :BATCH_SIZE:MAX_PREDICTIONS may follow"""
    add("--phases", nargs="+", metavar="LENGTH:SHARE", help=phases)
    length = {"default": None, "help": "tokens of a row (default: 128)"}
    size = {"default": None, "help": "rows per update, over all replicas (default: 32)"}
    flags.add_flags(parser, "sequence-length", "batch-size", sequence_length=length, batch_size=size)
    ramp = "start with batches of SIZE and double them up to --batch-size within SHARE of the run, such as 8:0.3"
    add("--batch-size-ramp", metavar="SIZE:SHARE", help=ramp)
    execution = "number of steps that Keras runs in one call; the logs stay the same (default: 1)"
    add("--steps-per-execution", type=flags.positive_int, default=1, metavar="N", help=execution)
    rematerialize = "recompute activations for the gradient instead of storing them: less memory, more time"
    add("--rematerialize", action="store_true", help=rematerialize)
    optimizer = "lamb is for batches of thousands (default: adamw)"
    add("--optimizer", choices=("adamw", "lamb"), default="adamw", help=optimizer)
    peak, correction = (
        {"help": "peak learning rate, after the warm-up (default: 1e-4)"},
        {"action": argparse.BooleanOptionalAction},
    )
    names = ("accumulate", "learning-rate", "warmup-steps", "bias-correction", "layer-decay", "seed")
    flags.add_flags(parser, *names, learning_rate=peak, bias_correction=correction)
    warmup = "instead of --warmup-steps: share of --steps or --hours (default: a tenth of --hours)"
    add("--warmup-share", type=flags.rate, metavar="X", help=warmup)
    schedule = """learning rate after the warm-up: linear decay to 0 as in the paper, or constant: then the same command
        with more --steps and the same --warmup-steps extends the run (default: linear)"""
    add("--schedule", choices=("linear", "constant"), default="linear", help=schedule)
    flags.add_flags(parser, "max-predictions", "whole-word")
    add("--mask-rate", type=flags.rate, metavar="X", help="share of all tokens to predict (default: 0.15)")
    add("--mask-token-rate", help="share of the predicted tokens that become [MASK] (default: 0.8)", **share_of)
    add("--keep-rate", help="share of the predicted tokens that stay as they are (default: 0.1)", **share_of)
    add("--random-token-rate", help="share of the predicted tokens that become random (default: 0.1)", **share_of)
    add("--span-length", type=flags.positive_int, metavar="N", help="mask spans of N tokens as a whole")
    add("--names", type=flags.file, metavar="FILE", help="mask the names in a file of learn_names.py as a whole")
    dupe_factor = "repeat pairs and masks after N epochs; the original repeats them after 10 (default: never)"
    add("--dupe-factor", type=flags.positive_int, metavar="N", help=dupe_factor)
    add("--random-next-rate", help="share of pairs with a random second segment (default: 0.5)", **share_of)
    positions = "positions of a new model: learned, or sinusoidal as in the Transformer (default: learned)"
    add("--position-embedding", choices=("learned", "sinusoidal"), help=positions)
    starts = "learned positions of a new model: normal, or sinusoidal: start as the Transformer's (default: normal)"
    add("--position-initializer", choices=("normal", "sinusoidal"), help=starts)
    deviation = "standard deviation of new weights (default: 0.02); scaled: 0.02 · √(768 / width)"
    add("--initializer-stddev", type=flags.stddev_or_scaled, metavar="X", help=deviation)
    add("--left-to-right", action="store_true", help='predict the next token: the "LTR" model of section 5.1')
    often = {"default": 500, "help": "steps between checkpoints and evaluations; a multiple of --log-every"}
    names = ("no-next-sentence", "dropout", "packed", "fill-rows", "held-out")
    names += ("evaluation-batches", "log-every", "checkpoint-every")
    flags.add_flags(parser, *names, checkpoint_every=often)
    keep_every = "keep the checkpoints of every N steps, a multiple of --checkpoint-every, for --init RUN@STEP"
    add("--keep-every", type=flags.positive_int, metavar="N", help=keep_every)
    service = "with --records: HOST:PORT of a recipes/serve_data.py that makes the training batches"
    add("--data-service", metavar="ADDRESS", help=service)
    flags.add_flags(parser, *flags.MACHINE, "xla", "log-dir", "profile", "json", "overwrite", "dry-run")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    corpus, records, as_json = (arguments.pop(name) for name in ("corpus", "records", "json"))
    with flags.plain_errors():
        import kbert
        from kbert.tasks.pretraining.table import describe_estimate, describe_run

        run = kbert.pretrain(records or corpus, **arguments)
    print(describe_estimate(run.metrics) if arguments["dry_run"] else describe_run(run))
    if as_json:
        print(json.dumps(run.metrics))


if __name__ == "__main__":
    flags.command(main, resumes=True)
