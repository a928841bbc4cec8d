"""Run a table of the paper at any scale: pre-train its models, fine-tune them with several seeds, judge each row.

    python recipes/ablations.py --table table5 --records records --size tiny --steps 30000 --settings small-budget \\
        --glue glue --tasks MRPC SST-2 --squad squad --ner conll2003 --seeds 0 1 2 --output runs/ablations

--table: table5 (No NSP, LTR, + BiLSTM), table6 (sizes), table7 (features of a frozen encoder), table8 (masking),
figure5 (steps), and similar comparisons that are not in the paper: pretraining (with random weights), masking,
next-sentence, positions; or all. Give all tables the same --output: a pre-training or fine-tuning that several rows
need is run once. A killed command resumes when it is given again. For each row and task, the learning rate with the
best mean on dev over the seeds is taken. --results (by default results/ in --output) receives .json, .md, .csv and .svg
for each table: the scores next to the paper's, and for each comparison whether the paper's result is seen, reversed, or
a tie (docs/experiments.md).
"""

from typing import Literal

from experiments.paper_tables import TABLES

from kbert.cli import Command, run_command
from kbert.options import Count, FractionBelowOne, Natural, PathLike, Peak, Positive, verb
from kbert.pretraining.run.pretrain import SIZES


def _run(asked) -> list:
    from experiments.paper_tables import paper_table
    from experiments.report import result_table
    from experiments.run_table import describe_study_plan, run_table
    from experiments.study import make_study

    study = make_study(asked, "ablations.py")
    names = TABLES if asked.table == "all" else [asked.table]
    tables = [paper_table(name, list(asked.sizes), asked.names) for name in names]
    for table in tables:
        study.check(table)
    if asked.dry_run:
        print(describe_study_plan(study, tables))
        return []
    results = []
    for table in tables:
        results.append(run_table(table, study, asked.results or study.output / "results"))
        print(f"\n{table.title}\n\n{result_table(results[-1])}")
    return results


@verb(_run)
def ablations(
    corpus_or_records: list[str],
    table: Literal[(*TABLES, "all")],
    output: PathLike,
    *,
    vocabulary: PathLike | None = None,
    held_out: FractionBelowOne | None = None,
    names: PathLike | None = None,
    results: PathLike | None = None,
    size: SIZES = "tiny",
    sizes: list[SIZES] = ("tiny", "mini", "small"),
    settings: Literal["paper", "small-budget"] | None = None,
    steps: Count | None = None,
    hours: Positive | None = None,
    pretraining_batch_size: Count | None = None,
    pretraining_length: Count | None = None,
    pretraining_learning_rate: Peak | None = None,
    pretraining_precision: str | None = None,
    glue: PathLike | None = None,
    ner: PathLike | None = None,
    squad: PathLike | None = None,
    tasks: list[str] = (),
    train_examples: Count | None = None,
    seeds: tuple[Natural, ...] = (0,),
    learning_rates: tuple[Peak, ...] = (1e-4,),
    epochs: Positive = 3.0,
    batch_size: Count = 32,
    sequence_length: Count | None = None,
    dropout: FractionBelowOne | None = None,
    feature_epochs: Positive = 10.0,
    feature_units: Count = 768,
    dry_run: bool = False,
) -> list:
    """Runs a table of the paper at any scale.

    Args:
        corpus_or_records: the directory of records, or text files, which need `vocabulary`.
        table: the table or comparison.
        output: directory, which several tables may share.
        vocabulary: a vocab.txt, for text.
        held_out: fraction of the text that is held out, 0.01 by default.
        names: file of recipes/find_names.py, for the row of masking with names.
        results: directory of the tables; None: results/ in `output`.
        size: of the models.
        sizes: in table6.
        settings: defaults of the pre-trainings.
        steps: of each pre-training.
        hours: instead of `steps`; not for figure5.
        pretraining_batch_size, pretraining_length, pretraining_learning_rate, pretraining_precision: of the
            pre-trainings.
        glue: directory of the GLUE files.
        ner: directory of eng.train and eng.testa, for entities.
        squad: directory of train-v1.1.json and dev-v1.1.json.
        tasks: of `glue`, as NAME[:TRAIN[:DEV]]: MRPC SST-2:1000.
        train_examples: train on at most that many examples of each task.
        seeds: of the fine-tunings; the first one is that of the pre-trainings.
        learning_rates: of the fine-tunings, of which the best is taken.
        epochs, batch_size, sequence_length, dropout: of the fine-tunings.
        feature_epochs, feature_units: of the taggers of table7.
        dry_run: count what is left to do, estimate the first pre-training, and train nothing.
    """


COMMAND = Command(verb=ablations, positional=("corpus_or_records",), resumes=True, about=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
