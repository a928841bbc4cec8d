"""Submissions to the GLUE server: a zip with a file of answers for each test file.

Shapes: N labels, n rows.
"""

import pathlib
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from kbert.files import atomic_file
from kbert.options import PathLike
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS, SUBMISSION_FILES, GlueTask, check_pipeline, glue_name
from kbert.tasks.scores import predict_scores
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained

ZIP = "submission.zip"
HEADER = "index\tprediction\n"
_MIDNIGHT = (1980, 1, 1, 0, 0, 0)  # the same answers give the same zip


def answer_tests(
    pipelines: Sequence, task: GlueTask, directory: PathLike, *, batch_size: int = 32
) -> dict[str, list[str]]:
    """{submission file, such as "MNLI-mm": lines "index<tab>prediction"} of one model or of the mean of several."""
    answers = {}
    for file in task.tests:
        test = task.read_test(directory, file)
        scores = [
            _in_order(predict_scores(pipeline, test.columns, batch_size=batch_size), pipeline, task)
            for pipeline in pipelines
        ]
        answers[file] = _lines(test.index, predictions(task, np.mean(scores, axis=0)))
    return answers


def collect_models(
    runs: PathLike | None, named: Iterable[tuple[str, object]], constant: Collection[str] = ()
) -> dict[str, list]:
    """{task: sources of its models}, from a directory with a folder for each task's run, and from pairs (task, source).

    Several models of a task form an ensemble. `constant` are the tasks without a model.
    """
    models = {}
    for name in GLUE_TASKS if runs is not None else ():
        if (path := pathlib.Path(runs) / name / "model").is_dir():
            models[name] = [path]
    for task, source in named:
        models.setdefault(task, []).append(source)
    if twice := sorted(set(models) & set(constant)):
        raise ValueError(f"expected either a model or --constant for each task. Received: both for {twice}")
    if not models and not constant:
        raise ValueError(f"{runs}: expected folders of tasks with a model/ in them. Received: none")
    return models


def parse_models(words: Iterable[str]) -> list[tuple[str, str]]:
    """(task, source) of words such as "SST-2=runs/sst2"."""
    models = []
    for word in words:
        task, equals, source = word.partition("=")
        if not equals or glue_name(task) not in GLUE_TASKS:
            raise ValueError(f"`models`: expected TASK=SOURCE, TASK one of {list(GLUE_TASKS)}. Received: {word!r}")
        models.append((glue_name(task), source))
    return models


def files_to_read(models: Iterable[str], constant: Iterable[str], directory: PathLike) -> list[pathlib.Path]:
    """The files that `submit` reads: the test files, and the training files of tasks with constant answers."""
    tests = [GLUE_TASKS[name].test_path(directory, file) for name in models for file in GLUE_TASKS[name].tests]
    for name in constant:
        task = GLUE_TASKS[name]
        tests += [task.path(directory, "train"), *(task.test_path(directory, file) for file in task.tests)]
    return tests


def submit(
    models: Mapping[str, Sequence], constant: Sequence[str], directory: PathLike, output: PathLike, batch_size: int = 32
) -> str:
    """Answers the test files of several tasks and writes the submission; returns what was written, for printing.

    `constant` are the tasks that are answered with the most frequent label of their training file.
    """
    answers = {}
    for name, sources in models.items():
        pipelines = [build_pipeline(load_pretrained(source)) for source in sources]
        for source, pipeline in zip(sources, pipelines, strict=True):
            check_pipeline(source, pipeline, GLUE_TASKS[name])
        answers |= answer_tests(pipelines, GLUE_TASKS[name], directory, batch_size=batch_size)
    for name in constant:
        answers |= constant_answers(GLUE_TASKS[name], directory)
    path, missing = write_submission(output, answers)
    lines = [f"{file}.tsv: {len(rows):,} answers" for file, rows in answers.items()]
    lines.append(
        f"Wrote {path}." + (f" The server also requires {', '.join(missing)}." if missing else " It is complete.")
    )
    return "\n".join(lines)


def constant_answers(task: GlueTask, directory: PathLike) -> dict[str, list[str]]:
    """Answers to a task's test files without a model: the most frequent label of its training file, or the mean."""
    labels = task.read(directory, "train").labels
    answer = (
        np.array([labels.mean()]) if task.regression else np.bincount(labels, minlength=len(task.labels))[np.newaxis]
    )
    answers = {}
    for file in task.tests:
        index = task.read_test(directory, file).index
        answers[file] = _lines(index, predictions(task, np.repeat(answer, len(index), axis=0)))
    return answers


def predictions(task: GlueTask, scores: np.ndarray) -> list[str]:
    """Scores as the server requires: labels of the highest [n, N], or numbers [n] in the range of labels."""
    if task.regression:
        return [f"{score:.3f}" for score in np.clip(scores, *task.score_range)]
    return [task.labels[i] for i in np.argmax(scores, axis=-1)]


def write_submission(directory: PathLike, answers: Mapping[str, Sequence[str]]) -> tuple[pathlib.Path, list[str]]:
    """Writes ``<file>.tsv`` for each file, and a zip of all; returns its path and the names of the files it lacks."""
    if unknown := sorted(set(answers) - set(SUBMISSION_FILES)):
        raise ValueError(f"A submission has the files {list(SUBMISSION_FILES)}. Received: {unknown}")
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    contents = {f"{file}.tsv": HEADER + "".join(line + "\n" for line in lines) for file, lines in answers.items()}
    for name, content in contents.items():
        with atomic_file(directory / name) as file:
            file.write(content)
    path = directory / ZIP
    with atomic_file(path, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, _MIDNIGHT), content, zipfile.ZIP_DEFLATED)
    return path, [file for file in SUBMISSION_FILES if file not in answers]


def _in_order(scores, pipeline, task):
    """A model's scores with the labels in the order of the task."""
    labels = list(pipeline.answers.labels or ())
    return scores[:, [labels.index(label) for label in task.labels]] if task.labels else scores


def _lines(index, answers):
    return [f"{number}\t{answer}" for number, answer in zip(index, answers, strict=True)]
