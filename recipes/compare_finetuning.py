"""Measure what pre-training contributes: fine-tune a model and random weights on several tasks, and compare them.

    python recipes/compare_finetuning.py --source saved_models/kbert-tiny --output runs/comparison \\
        --glue glue --ner conll2003 --squad squad --tasks SST-2:1000 MRPC STS-B CoLA NER:3000 SQuAD \\
        --grid learning_rate=1e-4,3e-4,1e-3 epochs=3,6 dropout=0,0.1 --seeds 0 1 2

--tasks NAME[:TRAIN[:DEV]] is a task of GLUE, NER (--ner, with eng.train and eng.testa) or SQuAD (--squad, with
train-v1.1.json and dev-v1.1.json); TRAIN and DEV limit the numbers of examples. --grid NAME=VALUE[,VALUE…] gives values
for options of kbert.finetune: all combinations are tried with the first seed, on each task, for the model and for
random weights alike, and the best one is run with all seeds. A verdict needs a difference of the means that is larger
than the sum of both standard deviations. --other-models adds rows for further models. Every fine-tuning is a file in
cells/ of --output: a killed command resumes, and commands for other tasks or models may share --output. --results (by
default results/ in --output) receives finetuning-NAME.json, .md, .csv and .svg, which are rewritten after each task.
"""

from kbert.cli import Command, run_command
from kbert.options import Count, PathLike


def compare(
    source: PathLike,
    output: PathLike,
    tasks: list[str],
    *,
    glue: PathLike | None = None,
    ner: PathLike | None = None,
    squad: PathLike | None = None,
    grid: list[str] = ("learning_rate=1e-4,3e-4,1e-3", "epochs=3,6", "dropout=0,0.1"),
    seeds: list[int] = (0, 1, 2),
    choose_on: str = "dev",
    batch_size: Count = 32,
    sequence_length: Count | None = None,
    other_models: list[str] = (),
    name: str | None = None,
    results: PathLike | None = None,
    dry_run: bool = False,
) -> dict:
    """Compares a model with random weights of its architecture, fine-tuned alike on several tasks.

    Args:
        source: the model.
        output: directory for the fine-tunings.
        tasks: such as SST-2:1000 MRPC NER.
        glue: directory of the GLUE files.
        ner: directory of eng.train and eng.testa, for entities.
        squad: directory of train-v1.1.json and dev-v1.1.json.
        grid: values for options of `kbert.finetune`, NAME=X[,X…].
        seeds: of the fine-tunings.
        choose_on: "dev", or "train": settings are chosen on a fifth of the training set.
        batch_size: examples per update.
        sequence_length: tokens of a row for all tasks; None: 128, for SQuAD 384.
        other_models: to add as rows.
        name: in the table; None: the last part of `source`.
        results: directory of the tables; None: results/ in `output`.
        dry_run: count what is left to do, estimate the first fine-tuning, and train nothing.
    """
    from experiments.compare_finetuning import compare_finetuning, parse_grid
    from experiments.downstream import named_tasks

    return compare_finetuning(
        source,
        named_tasks(tasks, glue=glue, ner=ner, squad=squad),
        output,
        grid=parse_grid(grid),
        seeds=seeds,
        choose_on=choose_on,
        finetuning={"batch_size": batch_size} | ({"sequence_length": sequence_length} if sequence_length else {}),
        other_models=list(other_models),
        results=results,
        name=name,
        recipe="compare_finetuning.py",
        dry_run=dry_run,
    )


def report(result: dict) -> None:
    """Prints the table; of a dry run what is left to do."""
    from experiments.report import result_table
    from experiments.run_table import describe_comparison_plan

    print(describe_comparison_plan(result) if "left" in result else f"\n{result_table(result)}")


COMMAND = Command(verb=compare, report=report, resumes=True, about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
