"""Run a table of the paper at any scale: pre-train its models, fine-tune them with several seeds, judge each row.

    python recipes/ablations.py --table table5 --records records --size tiny --steps 30000 --settings small-budget \\
        --glue glue --tasks MRPC SST-2 --squad squad --ner conll2003 --restarts 3 --output runs/ablations

--table: table5 (No NSP, LTR, + BiLSTM), table6 (sizes), table7 (features of a frozen encoder), table8 (masking),
figure5 (steps), and similar comparisons that are not in the paper: pretraining (with random weights), masking,
next-sentence, positions; or all. Give all tables the same --output: a pre-training or fine-tuning that several rows
need is run once. A killed command resumes when it is given again. For each row and task, the --learning-rate with the
best mean on dev over the seeds is taken. --results (by default results/ in --output) receives .json, .md, .csv and .svg
for each table: the scores next to the paper's, and for each comparison whether the paper's result is seen, reversed, or
a tie (docs/experiments.md).
"""

from experiments.paper_tables import TABLES

from kbert import command_line as cli
from kbert.command_line.flag_table import SIZES


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    parser.add_argument("--table", choices=[*TABLES, "all"], required=True, help="the table or comparison")
    source = parser.add_mutually_exclusive_group(required=True)
    cli.add_flags(source, "records", "corpus", corpus={"help": "text files; needs --vocab"})
    cli.add_flags(
        parser,
        *("vocab", "held-out", "names", "output", "results", "size", "settings", "seed"),
        vocab={"help": "with --corpus: a vocab.txt"},
        held_out={"default": None, "help": "share of --corpus that is held out (default: 0.01)"},
        names={"help": "file of learn_names.py, for the row of masking with names"},
        size={"default": "tiny", "help": "size of the models"},
        settings={"help": "defaults of the pre-trainings (docs/pretraining.md)"},
    )
    sizes = {"nargs": "+", "choices": SIZES, "default": ["tiny", "mini", "small"]}
    parser.add_argument("--sizes", **sizes, help="in table6 (default: tiny mini small)")
    length = parser.add_mutually_exclusive_group(required=True)
    hours = {"help": "hours of each pre-training; not for figure5"}
    cli.add_flags(length, "steps", "hours", steps={"help": "steps of each pre-training"}, hours=hours)
    cli.add_flags(
        parser,
        *("glue", "ner", "squad", "train-examples", "restarts", "epochs", "batch-size", "learning-rate"),
        *("sequence-length", "dropout", "pretraining-batch-size", "pretraining-length"),
        *("pretraining-learning-rate", "pretraining-precision", "feature-epochs", "feature-units", "dry-run"),
        epochs={"default": 3.0},
        learning_rate={"metavar": "X[,X…]", "type": cli.rates, "default": "1e-4"},
        sequence_length={"default": None, "help": "tokens of a row in fine-tuning (default: 128, for SQuAD 384)"},
        dropout={"help": "in fine-tuning (default: the models' own)"},
        dry_run={"help": "count what is left to do, estimate the first pre-training, and train nothing"},
    )
    tasks = "of --glue, as NAME[:TRAIN[:DEV]]: MRPC SST-2:1000"
    parser.add_argument("--tasks", nargs="+", default=[], metavar="TASK", help=tasks)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from experiments.paper_tables import paper_table
        from experiments.report import result_table
        from experiments.run_table import describe_study_plan, run_table
        from experiments.study import make_study

        study = make_study(args, "ablations.py")
        names = TABLES if args.table == "all" else [args.table]
        tables = [paper_table(name, args.sizes, args.names) for name in names]
        for table in tables:
            study.check(table)
        if args.dry_run:
            print(describe_study_plan(study, tables))
            return
    for table in tables:
        result = run_table(table, study, args.results or args.output / "results")
        print(f"\n{table.title}\n\n{result_table(result)}")


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
