"""A command line from typed functions: flags, their help, checks and configuration files come from the signatures.

The command `kbert` (`kbert.commands`) is made by it, and a recipe with flags is, too: ``run_command(main)``.

Every parameter is a flag, ``--batch-size`` for ``batch_size``; a field of a group of `kbert.options.Options` is
``--xla``; one of the task ``--text``. Types and bounds are those of the annotations, the help is the docstring's.
``--config FILE`` reads values from YAML or JSON, such as a run's settings.json; flags override it.

The exit status is 2 if the command line or a configuration file is wrong: nothing was done then. It is 1 if the verb
failed, 130 after SIGINT and 143 after SIGTERM.

On argparse, as jsonargparse has no flat flags of groups and tyro takes no types such as "a path or a DataFrame"
(docs/maintainers/log.md).
"""

import argparse
import contextlib
import dataclasses
import functools
import inspect
import json
import logging
import os
import pathlib
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

from kbert.checks import check_option
from kbert.errors import UserError, user_errors
from kbert.options import Options, fixed_by_model, grouped, option_help, read_config, suggest, to_json

_LOGGER = logging.getLogger("kbert")
REQUIRED = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True)
class Flag:
    """An option of a command: a parameter of the verb, or a field of one of its groups or of its task."""

    name: str
    annotation: Any
    default: Any
    help: str
    group: str  # its heading in the help: the parameter whose field it is, or "arguments"
    is_positional: bool = False

    @property
    def string(self) -> str:
        """As on the command line: ``--logical-cpus``; ``CORPUS`` where a word without a flag is the value."""
        return self.name.upper() if self.is_positional else f"--{self.name.replace('_', '-')}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A verb as a command.

    Args:
        verb: the typed function that it calls.
        positional: the parameters that are given without a flag, in order; the last takes several values if its type
            is a list.
        report: function of the result that prints it for people; None: nothing is printed.
        as_json: function of the result that gives what ``--json`` prints on the last line; None: no such flag.
        failed: function of the result: whether the exit status is 1.
        tasks: for a verb with a parameter ``task``: function that gives the class of task objects by the word that
            comes first; the fields of the class are flags.
        partial_task: whether the verb takes, instead of a task object, the fields that are given, as a dict, or no task
            at all; fields that a trained model has fixed are no flags.
        resumes: whether the same command resumes a killed run, if it has an ``output``.
        presets: directory of configuration files that ``--config`` takes by their names, without ``.yaml``.
        epilog: examples, for the help.
    """

    verb: Callable
    positional: tuple[str, ...] = ()
    report: Callable[[Any], None] | None = None
    as_json: Callable[[Any], Any] | None = None
    failed: Callable[[Any], bool] | None = None
    tasks: Callable[[], Mapping[str, Callable]] | None = None
    partial_task: bool = False
    resumes: bool = False
    presets: pathlib.Path | None = None
    epilog: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the verb's docstring."""
        return (inspect.getdoc(self.verb) or "").split("\n\n")[0].replace("\n", " ")

    def flags(self, task: Callable | None = None) -> dict[str, Flag]:
        """The flags by name: the verb's and, if a task was chosen, the task's."""
        flags = [flag for flag in flags_of(self.verb, self.positional) if self.tasks is None or flag.name != "task"]
        if task is not None:
            own = flags_of(task, group="task")
            if self.takes_fields(task):
                fixed = fixed_by_model(task)
                own = [dataclasses.replace(flag, default=None) for flag in own if flag.name not in fixed]
            flags += own
        return {flag.name: flag for flag in flags}

    def takes_fields(self, task: Callable) -> bool:
        """Whether the verb takes the fields of this task; a function, such as `kbert.tasks.glue`, is called anyway."""
        return self.partial_task and isinstance(task, type)


def flags_of(function: Callable, positional: Sequence[str] = (), group: str = "arguments") -> Iterator[Flag]:
    """The flags of a typed function, of a class of task objects, or of a group of options."""
    sentences = option_help(function)
    for name, parameter in inspect.signature(function).parameters.items():
        default = parameter.default
        if isinstance(default, Options):
            for flag in flags_of(type(default), group=name):
                yield dataclasses.replace(flag, default=getattr(default, flag.name))
        elif set(_members(parameter.annotation)) - {type(None)}:
            yield Flag(name, parameter.annotation, default, sentences.get(name, ""), group, name in positional)


def _members(annotation) -> tuple:
    """The types that a word can have: a union's members, or the one type. Quoted classes are objects in memory."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _members(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(member for argument in arguments for member in _members(argument))
    is_in_memory = annotation in (Any, REQUIRED) or isinstance(annotation, str | typing.ForwardRef)
    return () if is_in_memory else (annotation,)


def _item_type(annotation):
    """The type of the items of a list or tuple of any length whose items are words; None: no such."""
    for member in _members(annotation):
        arguments = typing.get_args(member)
        is_list = typing.get_origin(member) in (list, Sequence) or arguments[1:] == (Ellipsis,)
        if is_list and not any(typing.get_origin(item) is list for item in _members(arguments[0])):
            return arguments[0]
    return None


def read_word(text: str, annotation: Any) -> Any:
    """A word of the command line as a value: as JSON, such as 3, 1e-4, null or {"a": 2}, unless a string is meant.

    128:0.9 is a tuple of numbers.
    """
    members = _members(annotation)
    if text.lower() == "none" and type(None) in members:
        return None
    if any(typing.get_origin(member) is Literal and text in typing.get_args(member) for member in members):
        return text  # "2.0" is a choice, and not a number
    if any(typing.get_origin(member) is tuple for member in members) and not text.startswith("["):
        numbers = [read_word(word, float) for word in text.split(":")]
        if len(numbers) == 1 or not all(isinstance(number, int | float) for number in numbers):
            raise argparse.ArgumentTypeError(f"expected numbers, such as 128:0.9. Received: {text}")
        return numbers
    try:
        value = json.loads(text)
    except ValueError:
        if float in members and str not in members:
            with contextlib.suppress(ValueError):
                return float(text)  # .9 is not JSON
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if str in members and not (is_number and (int in members or float in members)):
        return text
    return value


def make_parser(
    prog: str, command: Command, flags: Mapping[str, Flag], tasks: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """The parser for a command's flags. Its help lists the `tasks` to choose from."""
    description = re.split(r"\n(?=Args:|Returns:|Raises:)", inspect.getdoc(command.verb) or "")[0].strip()
    first = [prog]
    if tasks:
        first.append("[TASK]" if command.partial_task else "TASK")
        description += f"\n\nTASK is one of {', '.join(tasks)}. {prog} TASK --help shows its flags, too."
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=" ".join([*first, *(name.upper() for name in command.positional), "[flags]"]),
        description=description.replace("``", ""),
        epilog=textwrap.dedent(command.epilog).strip() or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    groups = {name: parser.add_argument_group(name) for name in dict.fromkeys(flag.group for flag in flags.values())}
    for flag in flags.values():
        _add_flag(groups[flag.group], flag)
    others = parser.add_argument_group("configuration")
    text = "YAML or JSON with values of flags; flags override it, and a later file an earlier one"
    if command.presets is not None:
        text += f"; or {', '.join(sorted(path.stem for path in command.presets.glob('*.yaml')))}"
    others.add_argument("--config", metavar="FILE", action="append", help=text)
    others.add_argument("--print-config", action="store_true", help="print all values as YAML, and do nothing")
    if command.as_json is not None:
        others.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    return parser


def _add_flag(group, flag: Flag) -> None:
    text = flag.help.replace("%", "%%").replace("``", "")
    if flag.default is not REQUIRED and flag.default not in (None, (), " "):  # a space would be invisible
        text += f" (default: {to_json(flag.default)})"
    item = _item_type(flag.annotation)
    options = {"default": argparse.SUPPRESS, "help": text}
    if bool in _members(flag.annotation):
        group.add_argument(flag.string, action=argparse.BooleanOptionalAction, **options)
        return
    options["type"] = functools.partial(read_word, annotation=item or flag.annotation)
    if flag.is_positional:
        group.add_argument(flag.name, metavar=flag.string, nargs="*" if item else "?", **options)
    else:
        metavar = _metavar(item or flag.annotation)
        group.add_argument(flag.string, metavar=metavar, nargs="+" if item else None, **options)


def _metavar(annotation) -> str:
    members = _members(annotation)
    for member in members:
        if typing.get_origin(member) is Literal:
            choices = "|".join(map(str, typing.get_args(member)))
            return choices + "|N" if int in members else choices
    if members and typing.get_origin(members[0]) is tuple:
        return ":".join(map(_metavar, typing.get_args(members[0])))
    if os.PathLike in members or pathlib.Path in members:
        return "PATH"
    names = {int: "N", float: "X", str: "NAME"}
    return next((names[member] for member in members if member in names), "JSON")


def parse_call(prog: str, command: Command, argv: Sequence[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """Parses a command line: the arguments of the verb, and what argparse returned.

    ``--help`` and ``--print-config`` end the program.

    Raises:
        ValueError, OSError, argparse.ArgumentError: the command line, or a configuration file that it names, is wrong.
    """
    argv, beam_flags = list(argv), []
    if "--" in argv and "beam_flags" in inspect.signature(command.verb).parameters:
        end = argv.index("--")
        argv, beam_flags = argv[:end], argv[end + 1 :]
    values, files = _read_configs(argv, command.presets)
    tasks = {} if command.tasks is None else command.tasks()
    word = None
    if tasks:
        word, argv, fields = _choose_task(command, tasks, argv, values.pop("task", None) or {})
        values |= fields
    task = tasks.get(word)
    prog = prog if task is None else f"{prog} {word}"
    flags = command.flags(task)
    parser = make_parser(prog, command, flags, () if task else tasks)
    words, unknown = parser.parse_known_args(argv)
    if unknown:
        name = unknown[0].split("=")[0]
        kind = "flag" if name.startswith("-") else "argument"
        strings = [flag.string for flag in flags.values()]
        raise ValueError(f"unknown {kind} {name}. {suggest(name, strings, f'See {prog} --help')}")
    if wrong := [name for name in values if name not in flags]:
        raise ValueError(f"--config {' '.join(files)}: unknown option `{wrong[0]}`. {suggest(wrong[0], flags)}")
    for name, flag in flags.items():
        if name in words:
            values[name] = getattr(words, name)
            if isinstance(values[name], list) and len(values[name]) == 1 and str in _members(flag.annotation):
                (values[name],) = values[name]  # of a string or a list of strings
        if name in values:
            values[name] = check_option(prog, name, values[name], flag.annotation)
        elif flag.default is REQUIRED:
            raise ValueError(f"{flag.string} is required. See {prog} --help")
    if words.print_config:
        _print_config(flags.values(), values, word)
        sys.exit()
    fields = {name: values.pop(name) for name, flag in flags.items() if flag.group == "task" and name in values}
    arguments = grouped(command.verb, values)
    if task is not None:
        arguments["task"] = {"task": word, **fields} if command.takes_fields(task) else task(**fields)
    if beam_flags:
        arguments["beam_flags"] = beam_flags
    return arguments, words


def _read_configs(argv: Sequence[str], presets: pathlib.Path | None) -> tuple[dict[str, Any], list[str]]:
    """The values of all configuration files, of which a later one overrides an earlier one; and the files' names."""
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    reader.add_argument("--config", action="append", default=[])
    files = reader.parse_known_args(argv)[0].config
    known = {} if presets is None else {path.stem: path for path in presets.glob("*.yaml")}
    values = {}
    for file in files:
        if file not in known and not os.path.exists(file):
            hint = suggest(file, known) if known else ""
            raise FileNotFoundError(f"--config {file}: no such file. {hint}".rstrip())
        values |= read_config(known.get(file, file))
    return values, files


def _choose_task(
    command: Command, tasks: Iterable[str], argv: Sequence[str], configured: Any
) -> tuple[str | None, Sequence[str], dict[str, Any]]:
    """(the task, the words after it, its configured fields): the task is the first word, or the configured one."""
    if not isinstance(configured, Mapping):
        raise ValueError(
            f"--config: expected `task` with its fields, as settings.json has it. Received: {configured!r}"
        )
    fields = dict(configured)
    word = fields.pop("task", None)
    if fields.get("glue"):  # the name of a GLUE task fixes the other fields
        word, fields = "glue", {"name": fields["glue"]}
    if argv and argv[0] in tasks:
        return argv[0], argv[1:], fields
    if isinstance(word, str) and word in tasks:
        return word, argv, fields
    if not command.partial_task and argv not in (["--help"], ["-h"]):
        raise ValueError(f"A task comes first. {suggest(argv[0] if argv else '', tasks)}")
    return None, argv, fields


def _print_config(flags: Iterable[Flag], values: Mapping[str, Any], task: str | None) -> None:
    """Prints the values of all flags, given or by default, as YAML that ``--config`` takes."""
    import yaml

    shown: dict[str, Any] = {} if task is None else {"task": {"task": task}}
    for flag in flags:
        value = to_json(values.get(flag.name, flag.default))
        if flag.group != "task":
            shown[flag.name] = value
        elif flag.name in values or value is not None:
            shown["task"][flag.name] = value
    print(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), end="")


def refuse(message: object) -> NoReturn:
    """Ends the program after a wrong command line: with one line, and status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def run_command(command: Command | Callable, argv: Sequence[str] | None = None, prog: str | None = None) -> Any:
    """Runs a typed function, or a `Command`, as a program, with the arguments of the command line.

    What a user can fix ends the program with one line, and so does an external cause of failure: a signal, divergence,
    a disk error, a lost worker, a damaged input, too little memory. Before, partial files are removed and the current
    training step is finished and saved; a second signal ends the program at once.

    Returns:
        What the function returned.

    Example::

        def main(corpus: PathLike, *, steps: Count = 1000):
            "Pre-trains on `corpus`. …"

        if __name__ == "__main__":
            run_command(main)
    """
    from kbert.training.signals import Interrupted, interrupt, let_signals_kill, take_signals

    take_signals(interrupt)
    command = command if isinstance(command, Command) else Command(verb=command)
    prog = prog or pathlib.Path(sys.argv[0]).name
    resumes = False
    try:
        from kbert.training.console import log_to_console

        log_to_console()  # before TensorFlow is imported
        from kbert.training.workers import named_losses

        try:
            values, words = parse_call(prog, command, sys.argv[1:] if argv is None else argv)
        except (argparse.ArgumentError, ValueError, OSError) as error:
            refuse(error)
        if command.resumes and not values.get("dry_run"):
            resumes = values.get("output") is not None
            if not resumes:
                _LOGGER.warning("no --output: no checkpoint and no model will be stored")
        with user_errors(), named_losses():  # the function of a recipe may be without `checked`
            result = command.verb(**values)
        if command.report is not None:
            command.report(result)
        if command.as_json is not None and words.json:
            print(json.dumps(command.as_json(result), ensure_ascii=False))
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt as error:
        let_signals_kill()
        stopped = error if isinstance(error, Interrupted) else Interrupted()
        if stopped.report is None:
            hint = "The same command starts or resumes the run." if resumes else "No partial files were left."
            print(f"\nInterrupted by {stopped.number.name}. {hint}", file=sys.stderr, flush=True)
        sys.exit(stopped.status)
    if command.failed is not None and command.failed(result):
        sys.exit(1)
    return result
