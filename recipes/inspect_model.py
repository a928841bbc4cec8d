"""Look into a model: attention, head statistics, layer probes, embeddings, and which tokens decided an answer.

    python recipes/inspect_model.py --model runs/tiny --log-dir runs/tiny/logs --text "The capital of [MASK] is Paris."
    python recipes/inspect_model.py --model runs/squad --output runs/squad/inspection --text "Who came?" "Ada came."
    python recipes/inspect_model.py --model runs/ner --compare runs/tiny --output runs/ner/inspection --data eng.train \
        --dev eng.testa --columns pos=1 tags=-1

--text: a text, or two of them (a question and its context; a pair), as often as you like. --log-dir: TensorBoard's
directory, which gets the run "inspection" with the projector. --output: report.html, figures.json and pictures/.
--data: labelled words or texts for linear probes of each layer: a table with the columns --text-column and
--label-column, or words in columns as in CoNLL's files, of which --columns names those with labels: tags are entities,
heads syntactic heads, any other name is a property. --dev: others, to score the probes on; without it, a fifth of
--data. --compare: another model, such as the one before fine-tuning: how similar the layers are. --corpus or --records:
the projector gets their most frequent tokens, with the frequencies.
"""

import argparse

from flags import add_flags, command, file, named_column, plain_errors, positive_int, source


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, named = parser.add_argument, {"metavar": "NAME=N", "type": named_column, "nargs": "+"}
    add_flags(parser, "model", model={"help": "any model"})
    add("--text", metavar="TEXT", nargs="+", action="append", help="a text, or two of them (default: two sentences)")
    add("--data", metavar="FILE", type=file, help="labelled words or texts, for probes")
    add("--dev", metavar="FILE", type=file, help="others, to score the probes on")
    add("--columns", **named, default=[("tags", -1)], help="of labels, from 0 or the end (default: tags=-1)")
    add("--text-column", metavar="NAME", default="text", help="of a table (default: text)")
    add("--label-column", metavar="NAME", default="label", help="of a table (default: label)")
    add("--max-words", metavar="N", type=positive_int, default=5000, help="words or texts of a file (default: 5000)")
    add("--compare", metavar="SOURCE", type=source, help="another model")
    counted = parser.add_mutually_exclusive_group()
    tokens = {"corpus": {"help": "text files whose tokens are counted"}, "records": {"help": "records, instead"}}
    add_flags(counted, *tokens, **tokens)
    output = {"required": False, "help": "where report, figures and pictures go"}
    replace, logs = {"help": "replace an inspection in --output"}, {"help": "TensorBoard's directory"}
    names = ("log-dir", "output", "sequence-length", "seed", "precision", "overwrite")
    add_flags(parser, *names, output=output, overwrite=replace, log_dir=logs, seed={"help": "of the control tasks"})
    args = parser.parse_args(argv)
    if not (args.log_dir or args.output):
        parser.error("give --log-dir, --output or both")
    if any(len(text) > 2 for text in args.text or ()):
        parser.error("--text takes one text or two; give --text again for another")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert
        from kbert.pretraining.unigrams import token_counts
        from kbert.tasks.labelled_columns import read_labelled_columns
        from kbert.training.hardware import choose_hardware

        names = {"text": args.text_column, "label": args.label_column}
        files = (args.data, args.dev)
        data, dev = (path and read_labelled_columns(path, dict(args.columns), **names) for path in files)
        options = {
            name: getattr(args, name) for name in ("log_dir", "overwrite", "sequence_length", "max_words", "seed")
        }
        with choose_hardware("one", args.precision).scope():
            model, counted = kbert.load_pretrained(args.model), args.records or args.corpus
            options["counts"] = token_counts(counted, model.pretrained.tokenizer) if counted else None
            options |= {"dev": dev, "compare": args.compare, "directory": args.output, "name": str(args.model)}
            found = kbert.inspect(model, args.text, data, **options)
    for name, probes in found.probes.items():
        best = probes.best_layer
        print(f"{name}: {probes.accuracy[best]:.1%} at layer {best}, selectivity {probes.selectivity[best]:.1%}")
    if args.output:
        print(f"Wrote {args.output / 'report.html'}.")
    if args.log_dir:
        print(f"Look at it: tensorboard --logdir {args.log_dir}")


if __name__ == "__main__":
    command(main)
