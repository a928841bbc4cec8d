"""Compare pre-trainings by their held-out loss against hours of training, and draw their learning curves.

    for settings in paper small-budget; do
        python recipes/pretrain.py --records records --size mini --settings $settings --hours 2 \\
            --output runs/mini-$settings
    done
    python recipes/compare_pretraining.py --runs runs/mini-paper runs/mini-small-budget --output runs/comparison

--output receives comparison.md and comparison.svg, and curves.md and curves.svg: loss and accuracies on training and
held-out text against tokens and hours, and where each run's plateau was; and comparison.json with all figures, the
versions and the date. The runs need not be finished.
"""

import pathlib

from kbert.command_line import existing_directory, make_parser, plain_errors, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add(
        "--runs",
        nargs="+",
        type=existing_directory,
        required=True,
        metavar="DIR",
        help="output directories of pretrain.py",
    )
    score = "the score to compare, a key in history.jsonl (default: val_mlm_cross_entropy)"
    add("--score", default="val_mlm_cross_entropy", metavar="NAME", help=score)
    add("--output", type=pathlib.Path, required=True, metavar="DIR", help="directory for the tables and plots")
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse_arguments(argv)
    with plain_errors():
        from experiments.compare_pretraining import compare_pretraining

        print(compare_pretraining(arguments.runs, arguments.output, arguments.score))


if __name__ == "__main__":
    run_program(main)
