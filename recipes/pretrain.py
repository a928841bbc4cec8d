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

from flags import add_flags, command, directory, file, plain_errors, positive_float, positive_int, rate, share


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, only = parser.add_argument, parser.add_mutually_exclusive_group(required=True).add_argument
    only("--corpus", nargs="+", metavar="GLOB", help="text files, compressed or not; see docs/data.md")
    only("--records", metavar="DIR", type=directory, help="output of prepare_records.py")
    add("--vocab", metavar="FILE", type=file, dest="vocabulary", help="vocab.txt; --init and --records have their own")
    add("--cased", action="store_false", dest="lowercase", help="with --vocab: do not lower-case or strip accents")
    sizes = ("tiny", "mini", "small", "medium", "base", "large")
    add("--size", choices=sizes, help="of new weights (default: tiny)")
    add_flags(parser, "init", "output")
    settings = "defaults for the flags that are not given; see docs/pretraining.md"
    add("--settings", choices=("paper", "small-budget"), help=settings)
    long = parser.add_mutually_exclusive_group(required=True).add_argument
    long("--steps", type=positive_int, metavar="N", help="weight updates")
    hours = "instead of --steps: train that long; warm-up, decay and phases are shares of the time"
    long("--hours", type=positive_float, metavar="X", help=hours)
    phases = (
        "instead of --sequence-length: parts of the run, as 128:0.9 512:0.1 (the paper's), with :BATCH_SIZE and "
        ":MAX_PREDICTIONS after it if they differ"
    )
    add("--phases", nargs="+", metavar="LENGTH:SHARE", help=phases)
    add("--sequence-length", type=positive_int, metavar="N", help="tokens of a pair (default: 128)")
    add("--batch-size", type=positive_int, metavar="N", help="pairs an update, over all replicas (default: 32)")
    ramp = "begin with batches of SIZE and double them up to --batch-size within this share of the run, as 8:0.3"
    add("--batch-size-ramp", metavar="SIZE:SHARE", help=ramp)
    accumulate = "compute an update in N parts on every replica, for less memory (default: 1)"
    add("--accumulate", type=positive_int, default=1, metavar="N", help=accumulate)
    execution = "of Keras: steps between two looks of Python; logs are the same (default: 1)"
    add("--steps-per-execution", type=positive_int, default=1, metavar="N", help=execution)
    rematerialize = "compute activations again for the gradient instead of keeping them: less memory, more time"
    add("--rematerialize", action="store_true", help=rematerialize)
    optimizer = "lamb for batches of thousands (default: adamw)"
    add("--optimizer", choices=("adamw", "lamb"), default="adamw", help=optimizer)
    add("--learning-rate", type=positive_float, metavar="X", help="the peak, after the warm-up (default: 1e-4)")
    warmup = "of rising learning rate (default: a tenth of --steps, at most 10,000)"
    add("--warmup-steps", type=positive_int, metavar="N", help=warmup)
    warmup = "instead: of --steps or --hours (default: a tenth of --hours)"
    add("--warmup-share", type=rate, metavar="X", help=warmup)
    correction = "Adam's bias correction, which the paper's optimizer lacks"
    add("--bias-correction", action=argparse.BooleanOptionalAction, help=correction)
    decay = "factor of the learning rate from one layer to the one below (default: none)"
    add("--layer-decay", type=positive_float, metavar="X", help=decay)
    add_flags(parser, "seed")
    schedule = (
        "of the learning rate after the warm-up: linear to 0, as the paper; constant: the same command with "
        "more --steps (and the same --warmup-steps) extends a run, which keeps its last checkpoint (default: linear)"
    )
    add("--schedule", choices=("linear", "constant"), default="linear", help=schedule)
    predictions = "most masks of a sequence (default: 20 at length 128, 80 at 512)"
    add("--max-predictions", type=positive_int, metavar="N", help=predictions)
    add("--whole-word", action="store_true", help="mask whole words (Google's release of May 2019)")
    rates = "of the tokens that are predicted, become [MASK] (default: 0.8)"
    add("--mask-rate", type=rate, metavar="X", help="of all tokens, predicted (default: 0.15)")
    add("--mask-token-rate", type=share, metavar="X", help=rates)
    add("--keep-rate", type=share, metavar="X", help="of these, stay as they are (default: 0.1)")
    add("--random-token-rate", type=share, metavar="X", help="of these, become random tokens (default: 0.1)")
    add("--span-length", type=positive_int, metavar="N", help="mask spans of N tokens as a whole")
    dupe_factor = "the same pairs and masks again after N epochs, as the original's files after 10 (default: never)"
    add("--dupe-factor", type=positive_int, metavar="N", help=dupe_factor)
    add("--random-next-rate", type=share, metavar="X", help="of pairs with a random second segment (default: 0.5)")
    positions = "of new weights (default: learned; sinusoidal: as in the Transformer)"
    add("--position-embedding", choices=("learned", "sinusoidal"), help=positions)
    starts = "of learned positions (default: normal; sinusoidal: they start as the Transformer's)"
    add("--position-initializer", choices=("normal", "sinusoidal"), help=starts)
    add("--initializer-stddev", type=positive_float, metavar="X", help="of new weights (default: 0.02)")
    no_next_sentence = 'the "No NSP" ablation of section 5.1'
    add("--no-next-sentence", action="store_false", dest="next_sentence", help=no_next_sentence)
    add("--left-to-right", action="store_true", help='every token predicts the next: the "LTR" of section 5.1')
    add("--dropout", metavar="X", type=rate, help="instead of 0.1")
    packed = "several short pairs in a row, or never (default: where it leaves out a twentieth of the rows)"
    add("--packed", action=argparse.BooleanOptionalAction, help=packed)
    held_out = "of a --corpus' documents, for evaluation only (default: 0.01)"
    add("--held-out", type=rate, default=0.01, metavar="SHARE", help=held_out)
    add("--evaluation-batches", type=positive_int, default=50, metavar="N", help="(default: 50)")
    log_every = "(default: the divisor of --checkpoint-every that is nearest to 100)"
    add("--log-every", type=positive_int, metavar="STEPS", help=log_every)
    checkpoint_every = "also evaluates; a multiple of --log-every (default: 500)"
    add("--checkpoint-every", type=positive_int, default=500, metavar="STEPS", help=checkpoint_every)
    keep_every = "a multiple of --checkpoint-every: keep its checkpoints; --init RUN@STEP takes one"
    add("--keep-every", type=positive_int, metavar="STEPS", help=keep_every)
    add_flags(parser, "strategy", "logical-cpus", "precision", "xla", "log-dir", "profile", "json", "overwrite")
    service = "HOST:PORT of recipes/serve_data.py, which makes the training batches; with --records"
    add("--data-service", metavar="ADDRESS", help=service)
    add("--dry-run", action="store_true", help="estimate steps, memory and time, and train nothing")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    corpus, records, as_json = (arguments.pop(name) for name in ("corpus", "records", "json"))
    with plain_errors():
        import kbert

        run = kbert.pretrain(records or corpus, **arguments)
    report_plan(run.metrics) if arguments["dry_run"] else report_result(run)
    if as_json:
        print(json.dumps(run.metrics))


def report_plan(estimate):
    from kbert.training.dry_run import format_estimate

    count = f"{estimate['sequences_per_epoch']:,}" + ("" if estimate["sequences_are_all"] else " or more")
    print(f"{count} sequences in an epoch\n{format_estimate(estimate)}")


def report_result(run):
    from kbert.tasks.pretraining.table import describe_scores

    print(f"\n{describe_scores(run.metrics)}\n{run.metrics['minutes']:.1f} minutes")
    print(f"The model is in {run.path / 'model'}, the curves in {run.path / 'logs'}")
    print(f"Next: python recipes/finetune_classifier.py --init {run.path} --train my.csv …")


if __name__ == "__main__":
    command(main, resumes=True)
