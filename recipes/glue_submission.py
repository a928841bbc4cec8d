"""Answer GLUE's test files with fine-tuned models, zipped for gluebenchmark.com: section 4.1 and table 1 of the paper.

    kbert glue --source google-bert/bert-base-uncased --directory glue --output runs/glue
    python recipes/glue_submission.py --directory glue --runs runs/glue --constant WNLI --output runs/submission
    python recipes/glue_submission.py --directory glue --models RTE=runs/rte-0 RTE=runs/rte-1 --output runs/rte

Several models of a task form an ensemble, which averages their probabilities. MNLI's model also answers the diagnostic
set, AX. The paper skips WNLI: --constant answers with the most frequent label of the training file.
"""

import pathlib
import zipfile

import numpy as np

import kbert
from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.options import Count

FILES = {  # file of the submission → task, and where downloads have its texts
    "CoLA": ("CoLA", ["CoLA/test.tsv"]),
    "SST-2": ("SST-2", ["SST-2/test.tsv"]),
    "MRPC": ("MRPC", ["MRPC/test.tsv", "MRPC/msr_paraphrase_test.txt"]),
    "STS-B": ("STS-B", ["STS-B/test.tsv"]),
    "QQP": ("QQP", ["QQP/test.tsv"]),
    "MNLI-m": ("MNLI", ["MNLI/test_matched.tsv"]),
    "MNLI-mm": ("MNLI", ["MNLI/test_mismatched.tsv"]),
    "QNLI": ("QNLI", ["QNLI/test.tsv"]),
    "RTE": ("RTE", ["RTE/test.tsv"]),
    "WNLI": ("WNLI", ["WNLI/test.tsv"]),
    "AX": ("MNLI", ["diagnostic/diagnostic.tsv", "AX/AX.tsv"]),
}


def glue_submission(
    directory: PathLike,
    output: PathLike,
    *,
    runs: PathLike | None = None,
    models: list[str] = (),
    constant: list[str] = (),
    batch_size: Count = 32,
) -> list[str]:
    """Writes a .tsv for each test file, and submission.zip with all of them.

    Args:
        directory: the GLUE directory.
        output: new directory.
        runs: output of ``kbert glue``, with a folder for each task.
        models: TASK=SOURCE, a model for a task. Several for one task form an ensemble.
        constant: tasks to answer with the most frequent training label.
        batch_size: texts per batch.
    """
    output = pathlib.Path(output)
    if output.exists():
        raise FileExistsError(f"{output} already exists. Delete it or choose another --output.")
    sources = sources_by_task(runs, models)
    constant = [kbert.tasks.glue(name).glue for name in constant]
    if twice := sorted(set(sources) & set(constant)):
        raise ValueError(f"Expected either a model or --constant for each task. Received: both for {twice}")
    if not sources and not constant:
        raise ValueError(f"Expected --models, --constant or --runs with folders of tasks. Received: --runs {runs}")

    tasks = {name: kbert.tasks.glue(name) for name in [*sources, *constant]}
    texts = {file: read_texts(directory, paths, tasks[name]) for file, (name, paths) in FILES.items() if name in tasks}
    answers = {}
    for name, task in tasks.items():
        pipelines = [kbert.build_pipeline(kbert.load_pretrained(source)) for source in sources.get(name, [])]
        for pipeline in pipelines:
            task.check_pipeline(pipeline)
        for file in (file for file in texts if FILES[file][0] == name):
            index, columns = texts[file]
            if pipelines:
                answers[file] = zip(index, predict(pipelines, columns, batch_size), strict=True)
            else:
                answers[file] = [(number, most_frequent(task, directory)) for number in index]

    output.mkdir(parents=True)
    with zipfile.ZipFile(output / "submission.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file, rows in answers.items():
            lines = [f"{index}\t{answer}\n" for index, answer in rows]
            (output / f"{file}.tsv").write_text("".join(["index\tprediction\n", *lines]), encoding="utf-8")
            archive.write(output / f"{file}.tsv", f"{file}.tsv")
            print(f"{file}.tsv: {len(lines):,} answers")
    missing = [file for file in FILES if file not in answers]
    print(f"Wrote {output / 'submission.zip'}.", f"The server also requires {', '.join(missing)}." if missing else "")
    return list(answers)


def sources_by_task(runs: PathLike | None, models: list[str]) -> dict[str, list]:
    """Task → its models, those of `runs` first."""
    names = dict.fromkeys(task for task, _ in FILES.values()) if runs is not None else ()
    paths = {name: pathlib.Path(runs) / name / "model" for name in names}
    sources = {name: [path] for name, path in paths.items() if path.is_dir()}
    for word in models:
        name, _, source = word.partition("=")
        sources.setdefault(kbert.tasks.glue(name).glue, []).append(source)
    return sources


def read_texts(directory: PathLike, files: list[str], task) -> tuple[list[str], dict[str, list[str]]]:
    """(the server's index, the columns of texts) of a test file. It answers every row, also QQP's without a pair."""
    path = next((path for path in map(pathlib.Path(directory).joinpath, files) if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"{directory}: expected {' or '.join(files)}, the test texts of {task.glue}.")
    with open(path, encoding="utf-8-sig", newline="\n") as file:  # no quoting, and no other line breaks
        header, *rows = [line.rstrip("\r\n").split("\t") for line in file if line.strip("\r\n")]
    if missing := {task.text, task.text_pair} - {None, *header}:
        raise ValueError(f"{path}: expected the columns {sorted(missing)}. Received: {header}")
    rows = [dict(zip(header, row, strict=False)) for row in rows]
    index = [row.get("index") or row.get("id") or str(number) for number, row in enumerate(rows)]
    columns = {"text": task.text, "text_pair": task.text_pair}
    return index, {name: [row.get(column, "") for row in rows] for name, column in columns.items() if column}


def predict(pipelines: list, columns: dict[str, list[str]], batch_size: int) -> list[str]:
    """The label with the highest mean probability, or the mean score with three decimals."""
    outputs = [pipeline.predict(columns, batch_size=batch_size, verbose=0) for pipeline in pipelines]
    if "score" in outputs[0]:  # STS-B
        return [f"{score:.3f}" for score in np.clip(np.mean([output["score"] for output in outputs], axis=0), 0, 5)]
    labels = sorted(pipelines[0].answers.labels)
    orders = [[list(pipeline.answers.labels).index(label) for label in labels] for pipeline in pipelines]
    means = np.mean([out["probabilities"][:, order] for out, order in zip(outputs, orders, strict=True)], axis=0)
    return [labels[number] for number in means.argmax(axis=-1)]


def most_frequent(task, directory: PathLike) -> str:
    """The most frequent label of the training file, or the mean score."""
    train = task.read(directory, "train")
    return f"{train.baseline():.3f}" if train.regression else train.label_names[train.baseline()]


COMMAND = Command(verb=glue_submission, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
