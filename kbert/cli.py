"""A command line from typed functions: flags, their help, checks and configuration files come from the signatures.

The command `kbert` (`kbert.commands`) is made by it, and a recipe with flags is, too: ``run_command(main)``.

Every parameter is a flag, ``--batch-size`` for ``batch_size``; a field of a group of `kbert.options.Options` is
``--strategy``; one of the task ``--text``. Types and bounds are those of the annotations, the help is the
docstring's. ``--config FILE`` reads values from YAML or JSON, such as a run's settings.json; flags override it.

On argparse, as jsonargparse has no flat flags of groups and tyro takes no types such as "a path or a DataFrame"
(docs/maintainers/log.md).
"""

import argparse
import contextlib
import dataclasses
import difflib
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn

from kbert.checks import Unfit, convert, must_be
from kbert.errors import UserError, user_errors
from kbert.options import Options, fixed_by_model, grouped, option_help, read_config, to_json

_LOGGER = logging.getLogger("kbert")
REQUIRED = inspect.Parameter.empty


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A verb as a command.

    Args:
        verb: the typed function that it calls. Parameters without annotation are no flags, unless they are positional.
        positional: the parameters that are given without a flag, in order; the last takes several values if its type
            is a list.
        report: function of the result that prints it for people; None: nothing is printed.
        as_json: function of the result that gives what ``--json`` prints on the last line; None: no such flag.
        failed: function of the result: whether the exit status is 1.
        tasks: for a verb with a parameter ``task``: function that gives the class of task objects by the word that
            comes first; the fields of the class are flags.
        partial_task: whether the verb takes, instead of a task object, the fields that are given, as a dict; those that
            a trained model has fixed are no flags.
        resumes: whether the same command resumes a killed run, if it has an ``output``.
        presets: directory of configuration files that ``--config`` takes by their names, without ``.yaml``.
        epilog: examples, for the help.
        about: what the help says instead of the verb's docstring.
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
    about: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the verb's docstring."""
        return (inspect.getdoc(self.verb) or "").split("\n\n")[0].replace("\n", " ")


@dataclasses.dataclass(frozen=True)
class Flag:
    """An option of a command: a parameter, or a field of a group or of the task."""

    path: tuple[str, ...]  # of names, from the call to the option
    annotation: Any
    default: Any
    help: str

    @property
    def name(self) -> str:
        """As on the command line, without dashes: ``logical-cpus``."""
        return self.path[-1].replace("_", "-")

    def parse(self, text: str) -> Any:
        """The value that a word of the command line means."""
        value = read_word(text, self.annotation)
        try:
            return convert(value, self.annotation)
        except Unfit:
            raise argparse.ArgumentTypeError(must_be(self.annotation, value)) from None


def read_word(text: str, annotation: Any) -> Any:
    """A word of the command line as a value: as JSON, such as 3, 1e-4, null or {"a": 2}, unless a string is meant."""
    if text.lower() == "none" and _accepts(annotation, type(None)):
        return None
    if any(typing.get_origin(member) is Literal and text in typing.get_args(member) for member in _members(annotation)):
        return text  # "2.0" is a choice, and not a number
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if _accepts(annotation, str) and not (is_number and (_accepts(annotation, int) or _accepts(annotation, float))):
        return text
    return value


def _members(annotation) -> tuple:
    """The types of a union; of another annotation itself alone."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _members(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return tuple(member for argument in arguments for member in _members(argument))
    return (annotation,)


def _accepts(annotation, kind: type) -> bool:
    return kind in _members(annotation)


def _item_type(annotation):
    """The type of the items of a list or tuple of any length whose items are words; None: no such."""
    for member in _members(annotation):
        arguments = typing.get_args(member)
        is_list = typing.get_origin(member) in (list, Sequence) or arguments[1:] == (Ellipsis,)
        if is_list and not any(typing.get_origin(item) in (tuple, list) for item in _members(arguments[0])):
            return arguments[0]
    return None


def flags_of(function: Callable, names: Sequence[str] | None = None, prefix: tuple[str, ...] = ()) -> Iterator[Flag]:
    """The flags of a typed function, of a class of task objects, or of a group of options.

    They are the parameters with an annotation, and those of `names`.
    """
    help_texts = option_help(function)
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = parameter.annotation
        if annotation is REQUIRED and name not in (names or ()) or annotation is Any:
            continue
        if isinstance(annotation, type) and issubclass(annotation, Options):
            for flag in flags_of(annotation, None, (*prefix, name)):
                own = REQUIRED if parameter.default is REQUIRED else getattr(parameter.default, flag.path[-1])
                yield dataclasses.replace(flag, default=own)
        elif any(_is_of_words(member) for member in _members(annotation)):
            yield Flag((*prefix, name), annotation, parameter.default, help_texts.get(name, ""))


def _is_of_words(member) -> bool:
    """Whether words can stand for a value of a type: not of classes in quotes, which are objects in memory."""
    return member not in (Any, type(None)) and not isinstance(member, str | typing.ForwardRef)


def suggest(word: str, words: Sequence[str] | Mapping, otherwise: str) -> str:
    """The sentence of an error about an unknown word: what was meant, or `otherwise`."""
    near = difflib.get_close_matches(word, words, 1)
    return f"Did you mean {near[0]}?" if near else otherwise


def parse_words(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The parsed words; a wrong flag or value ends the program with status 2, after one line."""
    try:
        words, unknown = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        refuse(f"{error.argument_name.split('/')[0]} {error.message}")
    if unknown:
        flag = unknown[0].split("=")[0]
        flags = [string for action in parser._actions for string in action.option_strings]
        meant = suggest(flag, flags, f"See {parser.prog} --help")
        refuse(f"unknown flag {flag}. {meant}" if flag.startswith("-") else f"unexpected {flag!r}. {meant}")
    return words


def refuse(message: str) -> NoReturn:
    """Ends the program after a wrong command line: with one line, and status 2."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def make_parser(prog: str, command: Command, task_class: type | None = None) -> argparse.ArgumentParser:
    """The parser of a command, for one class of task objects where it has a task."""
    doc = inspect.getdoc(command.verb) or ""
    description = (command.about or re.split(r"\n(?=Args:|Returns:|Raises:)", doc)[0]).strip()
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=" ".join([prog, *(name.upper() for name in command.positional), "[flags]"]),
        description=description.replace("``", ""),
        epilog=textwrap.dedent(command.epilog).strip() or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    groups = {(): parser.add_argument_group("arguments")}
    task_flags = [] if task_class is None else [*flags_of(task_class)]
    if command.partial_task and isinstance(task_class, type):
        fixed = fixed_by_model(task_class)
        task_flags = [flag for flag in task_flags if flag.path[-1] not in fixed]
    own = {flag.name for flag in task_flags}
    for flag in flags_of(command.verb, command.positional):
        if (flag.path == ("task",) and command.tasks is not None) or flag.name in own:
            continue
        group = groups.setdefault(flag.path[:-1], None) or parser.add_argument_group(".".join(flag.path[:-1]))
        groups[flag.path[:-1]] = group
        _add_flag(group, flag, flag.path[0] in command.positional and len(flag.path) == 1)
    if task_class is not None:
        group = parser.add_argument_group(f"the task, {task_class.__name__}")
        for flag in task_flags:
            _add_flag(group, dataclasses.replace(flag, path=("task", *flag.path)))
    others = parser.add_argument_group("configuration")
    text = "YAML or JSON with values of flags; flags override it, and a later file an earlier one"
    if command.presets is not None:
        text += f"; or {', '.join(sorted(path.stem for path in command.presets.glob('*.yaml')))}"
    others.add_argument("--config", metavar="FILE", action="append", help=text)
    others.add_argument("--print-config", action="store_true", help="print all values as YAML, and do nothing")
    if command.as_json is not None:
        others.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    return parser


def _add_flag(group, flag: Flag, is_positional: bool = False) -> None:
    text = flag.help.replace("%", "%%").replace("``", "")
    if flag.default is not REQUIRED and flag.default not in (None, (), " "):
        text += f" (default: {to_json(flag.default)})"
    item = _item_type(flag.annotation)
    options = {"default": argparse.SUPPRESS, "help": text}
    if is_positional:
        options["nargs"] = "*" if item is not None else "?"
        group.add_argument(".".join(flag.path), metavar=flag.path[-1].upper(), type=_parse_item(flag, item), **options)
        return
    string = f"--{flag.name}"
    if _accepts(flag.annotation, bool):
        group.add_argument(string, dest=".".join(flag.path), action=argparse.BooleanOptionalAction, **options)
        return
    if item is not None:
        options["nargs"] = "+"
        if _accepts(flag.annotation, str):
            options["action"] = _WordOrList
    group.add_argument(
        string,
        dest=".".join(flag.path),
        metavar=_metavar(item or flag.annotation),
        type=_parse_item(flag, item),
        **options,
    )


class _WordOrList(argparse.Action):
    """For options that take a string or a list of strings: one word is the string."""

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def _parse_item(flag: Flag, item):
    return flag.parse if item is None else dataclasses.replace(flag, annotation=item).parse


def _metavar(annotation) -> str:
    members = _members(annotation)
    for member in members:
        if typing.get_origin(member) is Literal:
            choices = "|".join(map(str, typing.get_args(member)))
            return choices + "|N" if int in members else choices
    if os.PathLike in members or pathlib.Path in members:
        return "PATH"
    names = {int: "N", float: "X", str: "NAME"}
    return next((names[member] for member in members if member in names), "JSON")


def parse_call(prog: str, command: Command, argv: Sequence[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """The arguments of the verb that the words of a command line mean, and the parsed words.

    ``--help`` and ``--print-config`` end the program, and a wrong flag or value does with status 2, after one line.
    """
    parameters = inspect.signature(command.verb).parameters
    beam_flags = []
    if "beam_flags" in parameters and "--" in argv:
        end = list(argv).index("--")
        argv, beam_flags = argv[:end], list(argv[end + 1 :])
    config = _config_of(command, argv)
    task_class, argv = None, list(argv)
    if command.tasks is not None:
        if config.get("task") is None:
            config.pop("task", None)
        if not isinstance(fields := config.get("task", {}), Mapping):
            raise ValueError(
                f"--config: expected `task` with its fields, as settings.json has it. Received: {fields!r}"
            )
        if name := fields.get("glue"):  # a run on a task of GLUE, whose name says its other fields
            config["task"] = {"task": "glue", "name": name}
        task_class, prog, argv = _choose_task(prog, command, argv, config)
    parser = make_parser(prog, command, task_class)
    words = parse_words(parser, argv)
    values = dict(config)
    if beam_flags:
        values["beam_flags"] = beam_flags
    if command.tasks is not None and "task" in values:
        values["task"] = {name: value for name, value in values["task"].items() if name != "task"}
    for dest, value in vars(words).items():
        place, _, field = dest.rpartition(".")
        if dest in ("config", "print_config", "json"):
            continue
        if place == "task":
            values["task"] = {**values.get("task", {}), field: value}
        else:
            values[field] = value
    try:
        values = grouped(command.verb, values)
    except TypeError as error:
        raise ValueError(f"--config {' '.join(words.config)}: {error}") from None
    if task_class is not None:
        fields = values.get("task", {})
        if unknown := sorted(set(fields) - set(inspect.signature(task_class).parameters)):
            raise ValueError(f"--config {' '.join(words.config)}: {task_class.__name__} has no field `{unknown[0]}`")
        values["task"] = fields if command.partial_task and isinstance(task_class, type) else task_class(**fields)
    for name, parameter in parameters.items():
        if parameter.default is REQUIRED and name not in values and parameter.kind is not parameter.VAR_KEYWORD:
            flag = name.upper() if name in command.positional else f"--{name.replace('_', '-')}"
            refuse(f"{flag} is required. See {prog} --help")
    if words.print_config:
        print_config(command, values, task_class)
        sys.exit()
    return values, words


def _config_of(command: Command, argv: Sequence[str]) -> dict[str, Any]:
    """The values of all configuration files of a command line; a later one overrides an earlier one."""
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    reader.add_argument("--config", action="append", default=[])
    config = {}
    with contextlib.suppress(argparse.ArgumentError):  # a flag without a file, which the command's parser refuses
        for name in reader.parse_known_args(argv)[0].config:
            preset = command.presets and command.presets / f"{name}.yaml"
            config |= read_config(preset if preset and preset.is_file() else name)
    return config


def _choose_task(prog: str, command: Command, argv: list[str], config: Mapping):
    tasks = command.tasks()
    if argv and argv[0] in tasks:
        return tasks[argv[0]], f"{prog} {argv[0]}", argv[1:]
    if config.get("task", {}).get("task") in tasks:
        return tasks[config["task"]["task"]], prog, argv
    is_required = inspect.signature(command.verb).parameters["task"].default is REQUIRED
    if argv in (["--help"], ["-h"]):
        usage = f"{prog} TASK [--help] [flags]"
        parser = argparse.ArgumentParser(prog=prog, description=command.summary, usage=usage)
        parser.add_argument("task", metavar="TASK", help=", ".join(tasks))
        parser.parse_args(["--help"])
    if is_required:
        if not argv:
            refuse(f"TASK is required. See {prog} --help")
        meant = suggest(argv[0], tasks, f"Known: {', '.join(tasks)}")
        refuse(f"{prog}: unknown {argv[0]!r}. {meant}")
    return None, prog, argv


def print_config(command: Command, values: Mapping[str, Any], task_class: type | None) -> None:
    """Prints the values of all flags, given or by default, as YAML that ``--config`` takes."""
    import yaml

    full = _all_values(command, values)
    if task_class is not None:
        task = values["task"]
        if isinstance(task, Mapping):  # some fields of it
            task = {"task": next(word for word, load in command.tasks().items() if load is task_class), **task}
        else:
            task = task.to_dict()
        full["task"] = json.loads(json.dumps(to_json(task)))
    print(yaml.safe_dump(full, sort_keys=False, allow_unicode=True), end="")


def _all_values(command: Command, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all flags by name, given or by default, as JSON holds them."""
    flat = {}
    for flag in flags_of(command.verb, command.positional):
        place, *field = flag.path
        value = getattr(values[place], field[0]) if field and place in values else values.get(place, flag.default)
        if value is not REQUIRED:
            flat[flag.path[-1]] = to_json(value)
    return flat


def execute(command: Command, argv: Sequence[str], prog: str, call: dict[str, Any] | None = None) -> Any:
    """Calls the verb that the words of a command line mean, and prints its report; returns its result.

    `call` receives the verb's arguments before it is called. A `UserError` ends the program with one line.
    """
    with one_line_errors(), user_errors():
        values, words = parse_call(prog, command, argv)
        if call is not None:
            call |= values
        if command.resumes and values.get("output") is None and not values.get("dry_run"):
            _LOGGER.warning("no --output: no checkpoint and no model will be stored")
        result = command.verb(**values)
    if command.report is not None:
        command.report(result)
    if command.as_json is not None and words.json:
        print(json.dumps(command.as_json(result), ensure_ascii=False))
    if command.failed is not None and command.failed(result):
        sys.exit(1)
    return result


def run_command(command: Command | Callable, argv: Sequence[str] | None = None, prog: str | None = None) -> Any:
    """Runs a typed function, or a `Command`, as the program that the words of the command line mean.

    Example::

        def main(corpus: PathLike, *, steps: Count = 1000):
            "Pre-trains on `corpus`. …"

        if __name__ == "__main__":
            run_command(main)
    """
    command = command if isinstance(command, Command) else Command(verb=command)
    words = sys.argv[1:] if argv is None else argv
    prog = prog or pathlib.Path(sys.argv[0]).name
    call = {}
    main = functools.partial(execute, command, words, prog, call)
    return run_program(main, lambda: command.resumes and call.get("output") is not None and not call.get("dry_run"))


def run_program(main: Callable[[], Any], resumes: Callable[[], bool] = lambda: False) -> Any:
    """Runs `main` as a program in which external causes of failure end with one line.

    These are a signal, divergence, a disk error, a lost worker, a damaged input or too little memory. The exit
    status is 130 after SIGINT, 143 after SIGTERM, 1 after an error. Before the program ends, partial files are removed
    and the current training step is finished and saved; a second signal ends it at once. `resumes`: function that
    says whether the same command resumes a run from its checkpoints.
    """
    from kbert.training.console import log_to_console
    from kbert.training.signals import Interrupted, interrupt, let_signals_kill, take_signals

    take_signals(interrupt)
    try:
        log_to_console()  # before TensorFlow is imported
        from kbert.training.workers import named_losses

        with one_line_errors(), named_losses():
            return main()
    except KeyboardInterrupt as error:
        let_signals_kill()
        stopped = error if isinstance(error, Interrupted) else Interrupted()
        if stopped.report is None:
            hint = " The same command resumes the run." if resumes() else " No partial files were left."
            print(f"\nInterrupted by {stopped.number.name}.{hint}", file=sys.stderr, flush=True)
        sys.exit(stopped.status)


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Ends the program with one line, without a traceback, after a `UserError`."""
    try:
        yield
    except UserError as error:
        sys.exit(f"error: {error}")
