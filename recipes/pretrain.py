"""Pre-train BERT on text: masked language model and next sentence prediction, as in sections 3.1 and A.2 of the paper.

    python recipes/learn_vocabulary.py --corpus 'corpus/*.txt' --size 30522 --output vocab.txt
    python recipes/pretrain.py --corpus 'corpus/*.txt' --vocab vocab.txt --settings small-budget --steps 40000 \\
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

from kbert.command_line import add_flags, make_parser, plain_errors, run_program
from kbert.command_line.flag_table import EVALUATED_CHECKPOINTS, MACHINE


def parse_arguments(argv):
    parser = make_parser(__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    add_flags(source, "corpus", "records", corpus={"help": "text files; docs/data.md describes the formats"})
    add_flags(
        parser,
        *("vocab", "cased", "size", "init", "output", "settings"),
        vocab={"help": "the vocabulary, a vocab.txt; --init and --records have their own"},
        size={"help": "size of a new model (default: tiny), or the larger size to which --init grows first"},
        cased={"help": "with --vocab: do not lower-case the text or strip accents"},
    )
    length = parser.add_mutually_exclusive_group(required=True)
    add_flags(length, "steps", "hours", steps={"help": "number of weight updates"})
    add_flags(
        parser,
        *("phases", "sequence-length", "batch-size", "batch-size-ramp", "accumulate", "steps-per-execution"),
        *("rematerialize", "optimizer", "learning-rate", "warmup-steps", "warmup-share", "schedule", "bias-correction"),
        *("layer-decay", "weight-decay", "seed", "max-predictions", "whole-word", "mask-rate", "mask-token-rate"),
        *("keep-rate", "random-token-rate", "span-length", "names", "dupe-factor", "no-next-sentence"),
        *("random-next-rate", "left-to-right", "position-embedding", "position-initializer", "initializer-stddev"),
        *("dropout", "packed", "fill-rows", "held-out", "evaluation-batches", "log-every", "checkpoint-every"),
        *("keep-every", "keep-best", "data-service", *MACHINE, "xla", "log-dir", "profile", "json", "overwrite"),
        "dry-run",
        sequence_length={"default": None, "help": "tokens of a row (default: 128)"},
        batch_size={"default": None, "help": "rows per update, over all replicas (default: 32)"},
        learning_rate={"help": "peak learning rate, after the warm-up (default: 1e-4)"},
        seed={"help": "determines new weights, dropout, pairs, masks and their order"},
        bias_correction={"action": argparse.BooleanOptionalAction},
        held_out={"default": None, "help": "with --corpus: share of documents only for evaluation (default: 0.01)"},
        checkpoint_every=EVALUATED_CHECKPOINTS,
    )
    return parser.parse_args(argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    corpus, records, as_json = (arguments.pop(name) for name in ("corpus", "records", "json"))
    with plain_errors():
        import kbert
        from kbert.pretraining.run.table import describe_estimate, describe_run

        run = kbert.pretrain(records or corpus, **arguments)
    print(describe_estimate(run.metrics) if arguments["dry_run"] else describe_run(run))
    if as_json:
        print(json.dumps(run.metrics))


if __name__ == "__main__":
    run_program(main, resumes=True)
