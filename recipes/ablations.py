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

import argparse
import pathlib

import flags

from kbert.experiments.paper_tables import TABLES


def rates(text: str) -> list[float]:
    """Numbers above 0 with commas between them."""
    return [flags.positive_float(part) for part in text.split(",")]


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, count = parser.add_argument, {"type": flags.positive_int, "metavar": "N"}
    add("--table", choices=[*TABLES, "all"], required=True, help="the table or comparison")
    only = parser.add_mutually_exclusive_group(required=True).add_argument
    only("--records", metavar="DIR", type=flags.directory, help="output of prepare_records.py")
    only("--corpus", nargs="+", metavar="GLOB", help="text files; needs --vocab")
    add("--vocab", metavar="FILE", type=flags.file, dest="vocabulary", help="with --corpus: a vocab.txt")
    flags.add_flags(parser, "output")
    add("--results", metavar="DIR", type=pathlib.Path, help="for the tables (default: results/ in --output)")
    sizes = ("tiny", "mini", "small", "medium", "base", "large")
    add("--size", choices=sizes, default="tiny", help="size of the models (default: tiny)")
    add("--sizes", choices=sizes, nargs="+", default=["tiny", "mini", "small"], help="in table6 (default: three)")
    long = parser.add_mutually_exclusive_group(required=True).add_argument
    long("--steps", help="steps of each pre-training", **count)
    long("--hours", type=flags.positive_float, metavar="X", help="hours of each pre-training; not for figure5")
    add("--settings", choices=("paper", "small-budget"), help="pre-training defaults (docs/pretraining.md)")
    add("--pretraining-batch-size", help="(default: that of --settings, or 32)", **count)
    add("--pretraining-length", help="tokens (default: that of --settings, or 128)", **count)
    add("--names", metavar="FILE", type=flags.file, help="file of learn_names.py, for the row of masking with names")
    add("--held-out", type=flags.rate, default=0.01, metavar="SHARE", help="of --corpus, held out (default: 0.01)")
    add("--glue", metavar="DIR", type=flags.directory, help="directory of the GLUE files")
    add("--tasks", nargs="+", default=[], metavar="TASK", help="GLUE tasks, such as MRPC SST-2")
    add("--ner", metavar="DIR", type=flags.directory, help="eng.train and eng.testa, for entities")
    add("--squad", metavar="DIR", type=flags.directory, help="train-v1.1.json and dev-v1.1.json")
    add("--train-examples", help="training examples of each task, at most", **count)
    add("--restarts", default=3, help="number of seeds of each fine-tuning (default: 3)", **count)
    length = {"default": None, "help": "tokens of a row in fine-tuning (default: 128, for SQuAD 384)"}
    own = {"epochs": {"default": 3.0}, "sequence_length": length}
    own["learning_rate"] = {"metavar": "X[,X…]", "type": rates, "default": "1e-4"}
    flags.add_flags(parser, "epochs", "batch-size", "learning-rate", "sequence-length", "seed", **own)
    add("--dropout", metavar="X", type=flags.rate, help="in fine-tuning (default: the models' own)")
    add("--bias-correction", action="store_true", help="Adam's bias correction, in fine-tuning")
    add("--feature-epochs", type=flags.positive_float, default=10.0, metavar="N", help="on features (default: 10)")
    add("--feature-units", default=768, help="of their BiLSTMs in each direction (default: 768)", **count)
    return parser.parse_args(argv)


def make_study(args):
    from kbert.experiments.downstream import downstream_tasks
    from kbert.experiments.study import Study
    from kbert.tasks.features.train import FeatureTraining

    ner = args.ner and (args.ner / "eng.train", args.ner / "eng.testa")
    squad = args.squad and (args.squad / "train-v1.1.json", args.squad / "dev-v1.1.json")
    few = {"train_examples": args.train_examples}
    tasks = downstream_tasks(glue_directory=args.glue, glue_tasks=args.tasks, ner=ner, squad=squad, **few)
    names = ("vocabulary", "size", "steps", "hours", "settings", "held_out", "seed")
    pretraining = {name: getattr(args, name) for name in names}
    pretraining |= {"batch_size": args.pretraining_batch_size, "sequence_length": args.pretraining_length}
    names = ("epochs", "batch_size", "sequence_length", "dropout", "bias_correction")
    return Study(
        args.records or args.corpus,
        args.output,
        tasks,
        pretraining={name: value for name, value in pretraining.items() if value is not None},
        seeds=range(args.seed, args.seed + args.restarts),
        rates=args.learning_rate,
        finetuning={name: getattr(args, name) for name in names},
        feature_training=FeatureTraining(epochs=args.feature_epochs, units=args.feature_units, evaluate_every=None),
        recipe="ablations.py",
    )


def main(argv=None):
    args = parse_arguments(argv)
    with flags.plain_errors():
        from kbert.experiments.paper_tables import paper_table
        from kbert.experiments.report import result_table
        from kbert.experiments.run_table import run_table

        study = make_study(args)
        tables = [
            paper_table(name, args.sizes, args.names) for name in (TABLES if args.table == "all" else [args.table])
        ]
        for table in tables:
            study.check(table)
    for table in tables:
        result = run_table(table, study, args.results or args.output / "results")
        print(f"\n{table.title}\n\n{result_table(result)}")


if __name__ == "__main__":
    flags.command(main, resumes=True)
