"""The command `kbert`: every verb of the library, from a text file to a served model.

The signature of a verb determines the arguments of its command (`kbert.cli`). Verbs that only the command uses are in
the modules of this folder. Every verb imports its dependencies when it runs, so that ``kbert --help`` answers at once.
"""

import sys
from collections.abc import Sequence

import kbert
from kbert.cli import refuse, run_command
from kbert.commands import finetuning, inspecting, predicting, pretraining, serving
from kbert.options import suggest

GROUPS = {
    "pre-train": pretraining.COMMANDS,
    "fine-tune": finetuning.COMMANDS,
    "use": predicting.COMMANDS,
    "serve": serving.COMMANDS,
    "look inside": inspecting.COMMANDS,
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def help_text() -> str:
    """What ``kbert --help`` shows: the commands with their first sentences."""
    lines = ["usage: kbert COMMAND [--help] …", "", "A Keras 3 library to pre-train, fine-tune and serve BERT."]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<22}{command.summary.split('. ')[0].rstrip('.')}" for name, command in commands.items()]
    return "\n".join([*lines, "", "kbert COMMAND --help shows what a command takes."])


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command of the command line."""
    argv = list(sys.argv[1:] if argv is None else argv)
    word = argv[0] if argv else "--help"
    if word in ("--help", "-h"):
        print(help_text())
    elif word == "--version":
        print(kbert.__version__)
    elif word not in COMMANDS:
        refuse(f"unknown command {word!r}. {suggest(word, COMMANDS)}")
    else:
        run_command(COMMANDS[word], argv[1:], f"kbert {word}")
