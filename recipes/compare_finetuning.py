"""Measure what pre-training contributes: fine-tune a model and random weights on several tasks, and compare them.

    python recipes/compare_finetuning.py --init saved_models/kbert-tiny --output runs/comparison \\
        --glue glue --ner conll2003 --squad squad --task SST-2:1000 MRPC STS-B CoLA NER:3000 SQuAD \\
        --grid learning_rate=1e-4,3e-4,1e-3 epochs=3,6 dropout=0,0.1 --seeds 0 1 2

--task NAME[:TRAIN[:DEV]] is a task of GLUE, NER (--ner, with eng.train and eng.testa) or SQuAD (--squad, with
train-v1.1.json and dev-v1.1.json); TRAIN and DEV limit the numbers of examples. --grid NAME=VALUE[,VALUE…] gives values
for options of kbert.finetune: all combinations are tried with the first seed, on each task, for the model and for
random weights alike, and the best one is run with all seeds. A verdict needs a difference of the means that is larger
than the sum of both standard deviations. --other-models adds rows for further models. Every fine-tuning is a file in
cells/ of --output: a killed command resumes, and commands for other tasks or models may share --output. --results (by
default results/ in --output) receives finetuning-NAME.json, .md, .csv and .svg, which are rewritten after each task.
"""

from kbert.command_line import add_flags, make_parser, model_source, plain_errors, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add, length = parser.add_argument, "tokens of a row for all tasks (default: 128, for SQuAD 384)"
    add_flags(
        parser,
        *("init", "output", "results", "glue", "ner", "squad", "batch-size", "sequence-length", "dry-run"),
        init={"required": True},
        sequence_length={"default": None, "help": length},
        dry_run={"help": "count what is left to do, estimate the first fine-tuning, and train nothing"},
    )
    add("--name", metavar="NAME", help="in the table (default: the last part of --init)")
    add("--other-models", nargs="+", default=[], metavar="MODEL", type=model_source, help="to add as rows")
    add("--task", nargs="+", required=True, metavar="TASK", help="the tasks, such as SST-2:1000 MRPC NER")
    grid = ["learning_rate=1e-4,3e-4,1e-3", "epochs=3,6", "dropout=0,0.1"]
    help = f"values for options of kbert.finetune (default: {' '.join(grid)})"
    add("--grid", nargs="+", metavar="NAME=X[,X…]", default=grid, help=help)
    seeds = "seeds of the fine-tunings (default: 0 1 2)"
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="N", help=seeds)
    choose_on = "train: on a fifth of the training set (default: dev)"
    add("--choose-on", choices=("dev", "train"), default="dev", help=choose_on)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from experiments.compare_finetuning import compare_finetuning
        from experiments.describe_plan import describe_comparison_plan
        from experiments.grid import parse_grid
        from experiments.named_tasks import named_tasks
        from experiments.report import result_table

        tasks = named_tasks(args.task, glue=args.glue, ner=args.ner, squad=args.squad)
        finetuning = {"batch_size": args.batch_size}
        finetuning |= {"sequence_length": args.sequence_length} if args.sequence_length else {}
        result = compare_finetuning(
            args.init,
            tasks,
            args.output,
            grid=parse_grid(args.grid),
            seeds=args.seeds,
            choose_on=args.choose_on,
            finetuning=finetuning,
            other_models=args.other_models,
            results=args.results,
            name=args.name,
            recipe="compare_finetuning.py",
            dry_run=args.dry_run,
        )
    if args.dry_run:
        print(describe_comparison_plan(result))
        return
    print(f"\n{result_table(result)}")


if __name__ == "__main__":
    run_program(main, resumes=True)
