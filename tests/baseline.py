"""Compares the behavior of two commits: runs the same commands on both, and every number that comes out.

    python tests/baseline.py 40c06fe1 HEAD

Each commit gets a worktree of its own, and runs `COMMANDS` on inputs that are made here. Weights, predictions, scores,
batches and converted tensors are compared bit for bit, and logs by their numbers, but for times. Models are compared as
arrays by variable path, which each commit reads with its own `kbert.load_pretrained`. The exit status is 1 if anything
differs. Both commits run at once, in the environment that runs this script: about eight minutes on two cores.

A later commit may rename a flag, a file or a variable: `RENAMED` maps the old name to the new one.
"""

import argparse
import concurrent.futures
import csv
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

RENAMED = {  # commit that renamed: {old name: new name}, in commands, and in names of what is compared
}

# The arguments of `kbert`, in the directory of the inputs. KILL: the run is killed once it has a checkpoint, and given
# again.
COMMANDS = """
vocabulary corpus.txt --output vocab.txt --size 400
records corpus.txt --vocabulary vocab.txt --output records --held-out 0.1 --shard-tokens 2000
batches records --output batches --steps 6 --batch-size 4 --sequence-length 64 --seed 3
pretrain corpus.txt --vocabulary vocab.txt --held-out 0.1 --size tiny --steps 8 --batch-size 8 --whole-word --phases
    32:0.5 64:0.5 --checkpoint-every 4 --evaluation-batches 2 --output pretrained-text
pretrain records --size tiny --steps 8 --batch-size 8 --sequence-length 64 --packed --accumulate 2 --checkpoint-every
    2 --evaluation-batches 2 --output pretrained-packed
KILL pretrain records --size tiny --steps 12 --batch-size 8 --phases 32:0.5 64:0.5 --optimizer lamb --schedule stable
    --checkpoint-every 2 --log-every 2 --evaluation-batches 2 --output pretrained
finetune classification --source SOURCE --dropout 0.1 --train reviews.csv --dev 0.2 --batch-size 8 --sequence-length
    32 --epochs 2 --output classification
finetune classification --source SOURCE --dropout 0.1 --train reviews.csv --dev 0.2 --batch-size 8 --sequence-length
    32 --epochs 1 --teacher classification --output taught
finetune span --source SOURCE --dropout 0.1 --train questions.json --dev questions.json --version 2.0 --batch-size 4
    --sequence-length 48 --doc-stride 8 --epochs 2 --layer-decay 0.9 --output span
KILL finetune tagging --source SOURCE --dropout 0.1 --train tags.txt --dev tags.txt --context sentence --batch-size 4
    --sequence-length 32 --epochs 3 --lora-rank 4 --checkpoint-every 2 --output tagging
finetune similarity --source SOURCE --dropout 0.1 --train pairs.csv --dev 0.2 --text-pair text_pair --label score
    --score-range 0 5 --batch-size 8 --sequence-length 24 --epochs 1 --output similarity
evaluate span span --examples questions.json --output evaluated
predict --source tagging --input sentences.txt --output predicted.jsonl
predict --source classification --input new.csv --output answers.csv
export --source classification --output exported
convert --source pretrained --format huggingface --output huggingface
convert --source pretrained --format google --output google
convert --source huggingface --format google --output google-again
"""
COMMANDS = [" ".join(command.split()) for command in re.split(r"\n(?! )", COMMANDS.strip())]
MODELS = (
    "pretrained-text pretrained-packed pretrained classification taught span tagging similarity huggingface google"
).split()
TIMED = re.compile("second|minute|hour|time|memory|version|date|sha256|path|host|device|cpu|bytes")


def make_inputs(home):
    """A corpus and examples of four tasks, made of frequent English words: the same on every machine."""
    draw = random.Random(0)
    words = (
        "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
        "which one you were her all she there would their we him been has when who will more no if out so said what up "
        "its about into than them can only other new some could time these two may then do first any my now such like "
        "our over man me even most made after also did many before must through back years where much your way well "
        "down should because each just those people how too little state good very make world still own see men work "
        "long get here between both life being under never day same another know while last might us great old year "
        "off come since against go came right used take three unaffable Zürich naïve 東京 1987 3.5 e-mail O'Neill"
    ).split()

    def sentence(low=3, high=14):
        return " ".join(draw.choices(words, k=draw.randint(low, high))).capitalize() + draw.choice(".?!")

    def table(name, header, rows):
        with open(home / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([header, *rows])

    documents = [[sentence() for _ in range(draw.randint(2, 12))] for _ in range(80)]
    (home / "corpus.txt").write_text("\n\n".join(map("\n".join, documents)) + "\n", "utf-8")
    table("reviews.csv", ["text", "label"], [[sentence(), draw.choice(["good", "bad", "so so"])] for _ in range(60)])
    table("new.csv", ["id", "text"], [[n, sentence(0, 60)] for n in range(20)])
    table("pairs.csv", ["text", "text_pair", "score"], [[sentence(), sentence(), n % 6] for n in range(40)])
    (home / "sentences.txt").write_text("\n".join(sentence() for _ in range(12)) + "\n", "utf-8")
    tagged, tag = [], "O"
    for _ in range(24):
        for word in sentence().split():
            tag = draw.choice(["O", "O", "B-PER", "B-LOC", *(["I-PER"] * 2 if tag.endswith("PER") else [])])
            tagged.append(f"{word} {tag}\n")
        tagged.append("\n")
        tag = "O"
    (home / "tags.txt").write_text("".join(tagged), "utf-8")
    paragraphs = []
    for number in range(10):
        context = " ".join(sentence() for _ in range(6))
        answer = " ".join(context.split()[5:8])
        answers = [{"text": answer, "answer_start": context.index(answer)}] if number % 3 else []
        question = {"id": str(number), "question": sentence(4, 8), "answers": answers, "is_impossible": not answers}
        paragraphs.append({"context": context, "qas": [question]})
    questions = {"version": "v2.0", "data": [{"title": "made up", "paragraphs": paragraphs}]}
    (home / "questions.json").write_text(json.dumps(questions), "utf-8")


def run_commit(commit, home, commands):
    """Runs the commands of a commit in `home`, and writes what came out to `home`/facts.npz and facts.json."""
    root = pathlib.Path(__file__).resolve().parent.parent
    tree = home / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=root, check=True)
    try:
        make_inputs(home)
        environment = {**os.environ, "PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0"}
        names = _names_of(commit, root)
        for line in commands:
            arguments = [names.get(word, word) for word in shlex.split(line)]
            arguments = [str(tree / "saved_models" / "kbert-tiny") if a == "SOURCE" else a for a in arguments]
            is_killed = arguments[0] == "KILL"
            command = [sys.executable, "-m", "kbert", *arguments[is_killed:]]
            start = time.perf_counter()
            if is_killed:
                _kill_at_a_checkpoint(command, home, environment)
            done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{commit}: kbert {line}\n{done.stdout}\n{done.stderr}")
            print(f"{commit}  {time.perf_counter() - start:5.1f} s  kbert {line[:90]}", flush=True)
        reader = [sys.executable, os.fspath(pathlib.Path(__file__).resolve()), "--facts", os.fspath(home)]
        subprocess.run(reader, cwd=home, env=environment, check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=root, check=True)


def _names_of(commit, root):
    """The new names of old ones that hold at a commit."""
    names = {}
    for since, renamed in RENAMED.items():
        if not subprocess.run(["git", "merge-base", "--is-ancestor", since, commit], cwd=root).returncode:
            names |= renamed
    return names


def _kill_at_a_checkpoint(command, home, environment):
    """Ends the process of a command by SIGKILL as soon as the output of the run has a whole checkpoint."""
    checkpoints = home / command[command.index("--output") + 1] / "checkpoints"
    process = subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        if checkpoints.is_dir() and any(re.search(r"\d+$", path.name) for path in checkpoints.iterdir()):
            process.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    if process.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the run ended before it could be killed: {command}")


def write_facts(home):
    """What the commands left in `home`: arrays and values by name. Runs in the environment of the commit."""
    import numpy as np

    arrays, values = {}, {}

    def keep(name, value):
        """Values of nested lists and dicts by their path; times and versions are left out."""
        if isinstance(value, dict):
            for key, inner in value.items():
                if not TIMED.search(str(key)):
                    keep(f"{name}/{key}", inner)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                keep(f"{name}/{number}", inner)
        else:
            values[name] = value

    values["vocab.txt"] = (home / "vocab.txt").read_text("utf-8")
    for path in sorted((home / "records").rglob("*")):
        if path.is_file() and path.suffix != ".json":
            values[f"records/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    for path in sorted((home / "batches").glob("*.npz")):
        for key, array in np.load(path).items():
            arrays[f"batches/{path.name}/{key}"] = array
    for path in sorted(home.glob("*/metrics.json")):
        keep(f"{path.parent.name}/metrics", json.loads(path.read_text("utf-8")))
    for path in sorted(home.glob("*/history.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        keep(f"{path.parent.name}/history", rows)
    for path in [*home.glob("predicted*.jsonl"), *home.glob("evaluated/*predictions*"), *home.glob("answers*.csv")]:
        values[str(path.relative_to(home))] = path.read_text("utf-8")
    _keep_converted(home, arrays)
    _keep_models(home, arrays)
    _keep_served(home, keep)
    np.savez(home / "facts.npz", **{name: np.asarray(array) for name, array in arrays.items()})
    (home / "facts.json").write_text(json.dumps(values, default=str), "utf-8")


def _keep_converted(home, arrays):
    import tensorflow as tf
    from safetensors.numpy import load_file

    for name, tensor in load_file(home / "huggingface" / "model.safetensors").items():
        arrays[f"huggingface/tensors/{name}"] = tensor
    for directory in ("google", "google-again"):
        checkpoint = tf.train.load_checkpoint(str(home / directory / "bert_model.ckpt"))
        for name in checkpoint.get_variable_to_shape_map():
            arrays[f"{directory}/tensors/{name}"] = checkpoint.get_tensor(name)


def _keep_models(home, arrays):
    import numpy as np

    import kbert

    for name in MODELS:
        for variable in kbert.load_pretrained(home / name).weights:
            arrays[f"{name}/{variable.path}"] = np.asarray(variable)


def _keep_served(home, keep):
    """The answers of the exported model through the SavedModel's own function, with TensorFlow alone."""
    import csv

    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the ops of the tokenizer)

    exported = tf.saved_model.load(str(home / "exported" / "1"))
    with open(home / "new.csv", encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    answers = exported.signatures["serving_default"](text=tf.constant(texts))
    for name, tensor in answers.items():
        keep(
            f"exported/{name}",
            [value.decode() if isinstance(value, bytes) else value for value in tensor.numpy().ravel().tolist()],
        )


def compare(before, after, renamed):
    """Prints what differs between two directories of facts; returns how many names do."""
    import numpy as np

    differing = 0
    for file in ("facts.npz", "facts.json"):
        old, new = (
            dict(np.load(home / file)) if file.endswith("npz") else json.loads((home / file).read_text("utf-8"))
            for home in (before, after)
        )
        for one, other in renamed.items():
            old = {re.sub(rf"(^|/){re.escape(one)}(?=/|$)", rf"\g<1>{other}", name): v for name, v in old.items()}
        rows = []
        for name in sorted({*old, *new}):
            if name not in old or name not in new:
                rows.append(f"{'only before' if name in old else 'only after'}: {name}")
            elif isinstance(old[name], np.ndarray):
                if old[name].dtype != new[name].dtype or old[name].shape != new[name].shape:
                    rows.append(f"{name}: {old[name].dtype}{old[name].shape} -> {new[name].dtype}{new[name].shape}")
                elif old[name].tobytes() != new[name].tobytes():
                    rows.append(f"{name}: largest difference {np.max(np.abs(old[name] - new[name].astype(float))):.3g}")
            elif old[name] != new[name] and old[name] == old[name]:
                rows.append(f"{name}: {str(old[name])[:70]!r} -> {str(new[name])[:70]!r}")
        print(f"{file}: {len(old)} names before, {len(new)} after, {len(rows)} differ", *rows, sep="\n    ")
        differing += len(rows)
    return differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=["HEAD~1", "HEAD"], help="two commits: before, after")
    parser.add_argument("--facts", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts:
        return write_facts(pathlib.Path(options.facts))
    with tempfile.TemporaryDirectory() as scratch:
        homes = [pathlib.Path(scratch) / name for name in ("before", "after")]
        for home in homes:
            home.mkdir()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(run_commit, options.commits, homes, [COMMANDS, COMMANDS]))
        root = pathlib.Path(__file__).resolve().parent.parent
        before, after = (_names_of(commit, root) for commit in options.commits)
        differing = compare(*homes, {old: new for old, new in after.items() if old not in before})
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
