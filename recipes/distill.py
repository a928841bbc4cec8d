"""Teach small models what a large one has learned, and compare them with the same models without a teacher.

    python recipes/distill.py --teacher weights/all-MiniLM-L6-v2 --glue glue --output runs/distill \\
        --students saved_models/kbert-tiny/model saved_models/kbert-mini/model --tasks SST-2:4000 MRPC

The teacher is fine-tuned on each task, then every student with each seed: on the labels alone, and on the labels and
the teacher's answers. A task may be limited to its first examples of a random order, NAME:COUNT; with --unlabelled N,
the student is also taught with N of the others, whose labels it does not see. Every fine-tuning is a run of its own in
--output, so that a killed command goes on; other settings are an error. results.json there has all scores on dev.
"""

import itertools
import json
import pathlib

import numpy as np

import kbert
from kbert.aliases import PathLike
from kbert.checks import check_directory
from kbert.cli import Command, run_command
from kbert.options import Count, Distillation, Fraction, Natural, Positive
from kbert.weights.source import open_checkpoint


def distill(
    teacher: PathLike,
    students: list[str],
    glue: PathLike,
    output: PathLike,
    *,
    tasks: list[str] = ("SST-2", "MRPC"),
    unlabelled: Natural = 0,
    seeds: tuple[Natural, ...] = (0, 1, 2),
    epochs: Positive = 3.0,
    batch_size: Count = 32,
    sequence_length: Count = 128,
    teacher_rate: Positive = 5e-5,
    student_rate: Positive = 3e-4,
    teacher_temperature: Positive = 2.0,
    hard_fraction: Fraction = 0.5,
) -> dict:
    """Fine-tunes a teacher and its students on tasks of GLUE.

    Args:
        teacher: the pre-trained model that becomes the teacher.
        students: pre-trained models.
        glue: the directory of GLUE.
        output: directory for the runs.
        tasks: tasks of GLUE with classes, each NAME or NAME:COUNT.
        unlabelled: at most so many texts without labels for a further run of each student on tasks with a COUNT; 0:
            none.
        seeds: of the students; the teacher has the first.
        epochs: passes over the examples, of the teacher and the students.
        batch_size: examples per update.
        sequence_length: tokens of an example.
        teacher_rate, student_rate: the peaks of their learning rates.
        teacher_temperature, hard_fraction: see `kbert.options.Distillation`.
    """
    output = pathlib.Path(check_directory(output, "`output`"))
    for model in (teacher, *students):
        open_checkpoint(model)  # an error now, and not after the teacher's training
    words = {pathlib.Path(student.removesuffix("/model")).name: student for student in students}
    names = {task.partition(":")[0] for task in tasks}
    if len(words) < len(students) or len(names) < len(tasks):
        raise ValueError(f"expected students and tasks of different names. Received: {[*students, *tasks]}")
    loss = {"teacher_temperature": teacher_temperature, "hard_fraction": hard_fraction}

    def score(source, task, train, dev, name, **options) -> float:
        """The first metric on dev of a fine-tuning, which is made once."""
        options |= {"epochs": epochs, "batch_size": batch_size, "sequence_length": sequence_length, "dropout": 0.0}
        run = kbert.finetune(source, task, train, dev, output / name, reuse=True, **options)
        return run.metrics["dev"][task.metrics[0]]

    results = {}
    for name, _, count in (task.partition(":") for task in tasks):
        task = kbert.tasks.glue(name)
        train = task.read(glue, "train")
        dev = task.read(glue, "dev")
        kinds = {"alone": {}, "taught": {"teacher": output / name / "teacher", "distillation": Distillation(**loss)}}
        if count:
            others, train = train.split(int(count))
            texts = {getattr(task, column): list(values)[:unlabelled] for column, values in others.columns.items()}
            if unlabelled:
                number = min(unlabelled, len(others))
                kinds[f"taught with {number} texts"] = kinds["taught"] | {"unlabelled": texts}
        first = {"learning_rate": teacher_rate, "seed": seeds[0]}
        made = {"teacher": score(teacher, task, train, dev, f"{name}/teacher", **first)}
        for (word, student), seed in itertools.product(words.items(), seeds):
            plain = {"learning_rate": student_rate, "seed": seed}
            for kind, more in kinds.items():
                run = f"{name}/{word}-{kind.replace(' ', '-')}-{seed}"
                made.setdefault(f"{word}, {kind}", []).append(score(student, task, train, dev, run, **plain, **more))
                print(f"{name}  {word}, {kind}, seed {seed}: {task.metrics[0]} {made[f'{word}, {kind}'][-1]:.4f}")
        results[name] = {"metric": task.metrics[0], "examples": len(train), "dev_examples": len(dev)} | made
    settings = {"epochs": epochs, "batch_size": batch_size, "sequence_length": sequence_length, "seeds": list(seeds)}
    settings |= {"unlabelled": unlabelled, "teacher_rate": teacher_rate, "student_rate": student_rate, **loss}
    (output / "results.json").write_text(json.dumps({"settings": settings, "tasks": results}, indent=2) + "\n")
    for name, made in results.items():
        print(f"\n{name}, {made['metric']} on dev ({made['examples']:,} examples to learn from)")
        print(f"  teacher {100 * made['teacher']:.1f}")
        for kind, scores in made.items():
            if isinstance(scores, list):
                print(f"  {kind}: {100 * np.mean(scores):.1f} ± {100 * np.std(scores, ddof=len(scores) > 1):.1f}")
    return results


COMMAND = Command(verb=distill, resumes=True, epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
