"""Score how well a model predicts masked words and next sentences of held-out text: accuracy, loss and perplexity.

    python recipes/evaluate_pretraining.py --model saved_models/kbert-tiny --records records
    python recipes/evaluate_pretraining.py --model google-bert/bert-base-uncased --corpus 'corpus/*.txt' --held-out 0.1

All held-out documents of the records or of the text are scored, once, with pairs and masks that are the same for every
model with the same vocabulary. While a model is pre-trained, only a sample of them is. The scores are printed beside
those of token frequencies, with their standard errors, and with --json as one JSON object on the last line.
With --output FILE.json they are written there, with the versions and the date.
"""

import datetime
import json

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    cli.add_flags(parser, "model", model={"help": "a model with a masked-LM head"})
    source = parser.add_mutually_exclusive_group(required=True)
    cli.add_flags(source, "records", "corpus")
    held_out = {"default": None, "help": "share of --corpus that is scored (default: 0.01)"}
    length, size = {"default": 128, "help": "tokens of a row"}, {"help": "rows per forward pass"}
    flags = ("held-out", "format", "language", "sequence-length", "batch-size", "precision", "json", "overwrite")
    own = {"format": {"default": None}, "language": {"default": None}}
    cli.add_flags(parser, *flags, held_out=held_out, sequence_length=length, batch_size=size, **own)
    cli.add_flags(parser, "output", output={"required": False, "metavar": "FILE.json", "help": "file for the scores"})
    args = parser.parse_args(argv)
    if args.output:
        cli.check_output_file(parser, args, endings=(".json",))
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from kbert.files import write_json
        from kbert.pretraining import evaluate_pretraining
        from kbert.training import choose_hardware
        from kbert.versions import versions

        options = cli.given(args, "held_out", "format", "language", "sequence_length", "batch_size")
        with choose_hardware("one", args.precision).scope():
            scores = evaluate_pretraining(args.model, args.records or args.corpus, **options)
        if args.output:
            date = datetime.date.today().isoformat()
            write_json(args.output, {**scores, "settings": cli.settings_of(args), "date": date, "versions": versions()})
    print(describe(scores))
    if args.json:
        print(json.dumps(scores))


def describe(scores):
    """The scores as readable lines."""

    def percent(name):
        return f"{100 * scores[name]:.1f} %"

    masked, pairs = ("mlm_accuracy", "mlm_standard_error"), ("nsp_accuracy", "nsp_standard_error")
    lines = [
        f"masked-LM accuracy      {percent(masked[0])} of {scores['masks']:,} (standard error "
        f"{percent(masked[1])}; the most frequent token: {percent('unigram_accuracy')})",
        f"masked-LM loss          {scores['mlm_cross_entropy']:.3f} nats, perplexity {scores['mlm_perplexity']:.1f} "
        f"(token frequencies: {scores['unigram_cross_entropy']:.3f} nats)",
    ]
    if "pairs" in scores:
        lines.append(
            f"next-sentence accuracy  {percent(pairs[0])} of {scores['pairs']:,} (standard error "
            f"{percent(pairs[1])}; the more frequent answer: {percent('most_frequent_nsp')})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    cli.run_program(main)
