"""Compare pre-trainings by their held-out loss against hours of training, and draw their learning curves.

    for settings in paper small-budget; do
        python recipes/pretrain.py --records records --size mini --settings $settings --hours 2 \\
            --output runs/mini-$settings
    done
    python recipes/compare_pretraining.py --runs runs/mini-paper runs/mini-small-budget --output runs/comparison

--output receives comparison.md and comparison.svg, and curves.md and curves.svg: loss and accuracies on training and
held-out text against tokens and hours, and where each run's plateau was. The runs need not be finished.
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
    from kbert.tasks.pretraining.learning_curves import (
        comparison_plot,
        comparison_table,
        curves_plot,
        curves_table,
        describe_plateau,
        read_curve,
        read_points,
    )

    with plain_errors():
        are_different = len({run.name for run in arguments.runs}) == len(arguments.runs)
        runs = {run.name if are_different else str(run): run for run in arguments.runs}
        curves = {name: read_curve(run, arguments.score) for name, run in runs.items()}
        points = {name: read_points(run) for name, run in runs.items()}
        table = comparison_table(curves)
        plateaus = "\n".join(f"- {describe_plateau(name, each)}" for name, each in points.items())
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "comparison.md").write_text(f"{table}\n", encoding="utf-8")
        (arguments.output / "comparison.svg").write_text(comparison_plot(curves, arguments.score), encoding="utf-8")
        (arguments.output / "curves.md").write_text(f"{curves_table(points)}\n\n{plateaus}\n", encoding="utf-8")
        (arguments.output / "curves.svg").write_text(curves_plot(points), encoding="utf-8")
    print(f"{table}\n\n{plateaus}")


if __name__ == "__main__":
    run_program(main)
