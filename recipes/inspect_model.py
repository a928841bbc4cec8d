"""Look inside a model: attention, head statistics, layer probes, embeddings, and which tokens decided an answer.

    python recipes/inspect_model.py --model saved_models/kbert-tiny --log-dir runs/kbert-tiny/logs \\
        --text "The capital of [MASK] is Paris."
    python recipes/inspect_model.py --model runs/squad --output runs/squad/inspection --text "Who came?" "Ada came."
    python recipes/inspect_model.py --model runs/ner --compare saved_models/kbert-tiny \\
        --output runs/ner/inspection --data eng.train --dev eng.testa --columns pos=1 tags=-1

--text takes a text, or two (a question and its context, or a pair). --log-dir is a TensorBoard directory, to which the
run "inspection" is added, with the projector. --output receives report.html, figures.json and pictures/. --data has
labelled words or texts for linear probes of each layer: either a table with the columns --text-column and
--label-column, or words in columns as in CoNLL's files. --columns names the columns with labels: tags are entities,
heads are syntactic heads, and any other name is a property of words. The probes are scored on --dev, or without it on a
fifth of --data. --compare, such as with the model before fine-tuning, shows how similar the layers of the two are. With
--corpus or --records, the projector shows their most frequent tokens.
"""

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    file = {"metavar": "FILE", "type": cli.existing_file}
    cli.add_flags(
        parser,
        *("model", "data", "dev", "text-column", "label-column", "output", "log-dir", "sequence-length", "seed"),
        *("precision", "overwrite"),
        model={"help": "the model to inspect, of any task"},
        data=file | {"required": False, "help": "labelled words or texts to train probes on"},
        dev={"help": "labelled words or texts to score probes on"},
        output={"required": False, "help": "directory for the report, figures and pictures"},
        log_dir={"help": "directory of TensorBoard logs"},
        seed={"help": "determines the labels of the control tasks"},
        overwrite={"help": "replace an inspection in --output"},
    )
    add, named = parser.add_argument, {"metavar": "NAME=N", "type": cli.named_column, "nargs": "+"}
    add("--text", metavar="TEXT", nargs="+", action="append", help="a text, or two (default: two sentences)")
    columns = "names and numbers of the columns of labels, from 0 or from the end (default: tags=-1)"
    add("--columns", **named, default=[("tags", -1)], help=columns)
    most = "the maximum number of words or texts to read from a file (default: 5000)"
    add("--max-words", metavar="N", type=cli.positive_int, default=5000, help=most)
    add("--compare", metavar="SOURCE", type=cli.model_source, help="another model, whose layers are compared")
    counted = {"corpus": "text files whose tokens are counted", "records": "records whose tokens are counted"}
    counted = {name: {"help": about} for name, about in counted.items()}
    cli.add_flags(parser.add_mutually_exclusive_group(), *counted, **counted)
    args = parser.parse_args(argv)
    if not (args.log_dir or args.output):
        parser.error("give --log-dir, --output or both")
    if any(len(text) > 2 for text in args.text or ()):
        parser.error("--text takes one text or two; repeat --text to inspect another one")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        import kbert
        from kbert.pretraining.unigrams import token_counts
        from kbert.tasks.labelled_columns import read_labelled_columns
        from kbert.training.hardware import choose_hardware

        names, files = {"text": args.text_column, "label": args.label_column}, (args.data, args.dev)
        data, dev = (path and read_labelled_columns(path, dict(args.columns), **names) for path in files)
        options = cli.given(args, "log_dir", "overwrite", "sequence_length", "max_words", "seed", "compare")
        with choose_hardware("one", args.precision).scope():
            model, counted = kbert.load_pretrained(args.model), args.records or args.corpus
            options["counts"] = token_counts(counted, model.pretrained.tokenizer) if counted else None
            options |= {"dev": dev, "directory": args.output, "name": str(args.model)}
            found = kbert.inspect(model, args.text, data, **options)
    for name, probes in found.probes.items():
        best = probes.best_layer
        print(f"{name}: {probes.accuracy[best]:.1%} at layer {best}, selectivity {probes.selectivity[best]:.1%}")
    if args.output:
        print(f"Wrote {args.output / 'report.html'}.")
    if args.log_dir:
        print(f"To view it, run: tensorboard --logdir {args.log_dir}")


if __name__ == "__main__":
    cli.run_program(main)
