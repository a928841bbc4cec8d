"""The playground as TensorBoard's tab "kbert".

TensorBoard imports this at every start, with whatever is installed beside it: so it imports nothing heavy.
"""

import argparse
from collections.abc import Callable

from tensorboard.plugins import base_plugin

from kbert.inspection.playground.app import PlaygroundApp

_NAME = "kbert"
_PREFIX = f"/data/plugin/{_NAME}"


class PlaygroundPlugin(base_plugin.TBPlugin):
    """The tab: its models lie below the log directories, or ``--kbert_models`` names them."""

    plugin_name = _NAME

    def __init__(self, context: base_plugin.TBContext) -> None:
        super().__init__(context)
        flags = context.flags or argparse.Namespace()
        host = "0.0.0.0" if getattr(flags, "bind_all", False) else getattr(flags, "host", None) or "localhost"
        self._app = PlaygroundApp(
            sources=_listed(getattr(flags, "kbert_models", "")),
            log_dirs=_log_dirs(context.logdir, getattr(flags, "logdir_spec", "")),
            vocabulary=getattr(flags, "kbert_vocab", "") or None,
            host=host,
            hosts=_listed(getattr(flags, "kbert_hosts", "")),
        )

    def get_plugin_apps(self) -> dict[str, Callable]:
        # Both: TensorBoard knows the module of a tab by an exact route.
        return {"/index.js": self._serve, "/*": self._serve}

    def is_active(self) -> bool:
        return True  # masks, pairs and the input representation need neither a run nor a model

    def frontend_metadata(self) -> base_plugin.FrontendMetadata:
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name=_NAME, disable_reload=True)

    def _serve(self, environ, start_response):
        path = environ.get("PATH_INFO", "")
        environ = {**environ, "PATH_INFO": path.removeprefix(_PREFIX)}
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + _PREFIX
        return self._app(environ, start_response)


class PlaygroundLoader(base_plugin.TBLoader):
    """What TensorBoard finds under the entry point ``tensorboard_plugins``."""

    def define_flags(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("kbert")
        help_texts = {
            "kbert_models": "models for the tab besides those below the log directory: model directories, RUN@STEP or "
            "SavedModels, separated by commas",
            "kbert_vocab": "vocab.txt for what needs no model (default: learned from Python's own documentation)",
            "kbert_hosts": "names by which a proxy reaches this TensorBoard, separated by commas",
        }
        for name, help in help_texts.items():
            group.add_argument(f"--{name}", metavar="PATH" if name == "kbert_vocab" else "LIST", default="", help=help)

    def load(self, context: base_plugin.TBContext) -> PlaygroundPlugin:
        return PlaygroundPlugin(context)


def _listed(text):
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _log_dirs(logdir, spec):
    """The log directories of ``--logdir PATH`` and of ``--logdir_spec name:PATH,name:PATH``."""
    parts = [part.partition(":") for part in _listed(spec)]
    return [*([logdir] if logdir else []), *(path if colon else name for name, colon, path in parts)]
