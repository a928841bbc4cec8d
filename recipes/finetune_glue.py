"""Fine-tune BERT on GLUE, as in section 4.1 of the paper: batches of 32, 3 epochs, the official metrics on dev.

    python recipes/finetune_glue.py --task SST-2 --data glue --init saved_models/kbert-tiny --output runs/sst2 \\
        --learning-rate 3e-4 --epochs 6
    python recipes/finetune_glue.py --task all --data glue --init saved_models/kbert-tiny --output runs/glue \\
        --submission --learning-rate 1e-4,3e-4,1e-3

--data is the official download, with a folder for each task (or the task's own folder). --task all trains on every task
that has a folder there, each into a folder of --output. Several learning rates, separated by commas, form a grid as in
the paper, whose base and large models take 5e-5,4e-5,3e-5,2e-5; --restarts 3 trains at each rate with the seeds N, N +
1 and N + 2 of --seed N, that is with a different head, order and dropout. The run that is best on dev is kept, as in
the paper; mean and standard deviation are those of the restarts at its learning rate. --submission answers the test
files with this model, zipped for the upload. --train-examples 1000 trains on 1,000 examples, the same ones for every
--seed (with --task all, a task that has fewer is used in full). --random-weights shows the benefit of pre-training. A
killed run resumes when the same command is given again. In --output there are model/ (a kbert directory), metrics.json,
settings.json and, for several runs, a folder for each.
"""

from kbert import command_line as cli
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, glue_name


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    add = parser.add_argument
    add("--task", type=glue_name, choices=[*GLUE_TASKS, "all"], required=True, help="the GLUE task")
    data = {"metavar": "DIR", "type": cli.existing_directory, "help": "directory of the GLUE files"}
    seeds = {"default": 1, "help": "number of seeds to try"}
    examples = {"help": "train on N examples, drawn at random"}
    cli.add_flags(parser, "data", "train-examples", "restarts", data=data, train_examples=examples, restarts=seeds)
    add("--submission", action="store_true", help="answer the test files and zip the answers")
    cli.add_finetuning_flags(parser, learning_rate={"metavar": "X[,X…]", "type": cli.rates, "default": "5e-5"})
    return parser.parse_args(argv)


def prepare(args):
    """All fine-tunings, ready to start."""
    from kbert.finetuning.glue_grid import GlueGrid

    options = cli.finetuning_options(args)
    grid = {"rates": options.pop("learning_rate"), "train_examples": args.train_examples, "tests": args.submission}
    grid["seeds"] = range(seed := options.pop("seed"), seed + args.restarts)
    more = {"settings": cli.settings_of(args), "recipe": "finetune_glue.py"}
    return GlueGrid(args.init, args.data, args.output, args.task, **grid, **more, **options)


def main(argv=None):
    args = parse_arguments(argv)
    with cli.plain_errors():
        from kbert.tasks.glue_benchmark.table import describe_all

        grid = prepare(args)
        if args.dry_run:
            print(grid.describe_plan())
            return
        grid.open()
    scores = grid.run()
    print(f"\n{describe_all(args.task, scores)}")
    if args.submission:
        with cli.plain_errors():
            print(grid.submit(args.batch_size))
    cli.report_finetuning(args, scores)


if __name__ == "__main__":
    cli.run_program(main, resumes=True)
