"""The models on offer: listed without loading them, loaded when first used, the last ones kept in memory."""

import collections
import functools
import pathlib
import threading

import keras

from kbert.inspection.playground.describe_model import describe, unreadable
from kbert.inspection.playground.exported_model import ExportedModel
from kbert.inspection.playground.playground_model import PlaygroundModel
from kbert.inspection.playground.request_fields import BadRequest, first_line
from kbert.inspection.playground.sources import found_sources, named_sources
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.source import checkpoint_step, is_step_checkpoint, local_source

_PARAMETERS = 700_000_000  # in memory: two models of BERT-large's size, or six of BERT-base's
_LATEST = "The latest checkpoint, now of step {}: it moves on while the run trains."
_LEARNED_SIZE = _LEARNED_SENTENCES = 4000  # for a vocabulary if none is given; learning it takes two seconds


class PlaygroundModels:
    """What the playground was pointed at.

    `sources` are models or SavedModels by path or name. Below `log_dirs` models are looked for each
    time they are listed. `vocabulary` is a path for what needs no model. None: one is learned from
    the prose that is installed with Python, when it is first needed.
    """

    def __init__(self, sources=(), log_dirs=(), vocabulary=None):
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "The playground needs Keras' TensorFlow backend, which reads strings. Received: backend "
                f"{keras.backend.backend()!r}. Start it with KERAS_BACKEND=tensorflow."
            )
        self.learns_vocabulary = vocabulary is None
        self._named = named_sources(sources)
        self._log_dirs = tuple(log_dirs)
        self._vocabulary = vocabulary
        self._loading = threading.Lock()  # one model at a time; those that are loaded answer meanwhile
        self._lock = threading.Lock()  # for the table of loaded models, held only while looking there
        self._vocabulary_lock = threading.Lock()  # separate: what needs no model does not wait for one
        self._loaded = collections.OrderedDict()  # (path, when it was written) → model, the last used at the end
        self._keys = {}  # path of a source → the key under which it was last loaded
        self._described = {}
        self._known = {}  # name → source, as of the last time that all were listed

    def check(self) -> None:
        """Opens all named sources, so that a wrong path is known at once."""
        for source in self._named:
            describe(source)
        if not self.learns_vocabulary:
            self._without_model  # noqa: B018

    def sources(self) -> dict:
        """Name → `ModelSource` of all models; the named ones come first."""
        by_name = {}
        for source in [*self._named, *found_sources(self._log_dirs)]:
            by_name.setdefault(source.name, source)
        in_use = {name: source for name, source in self._known.items() if source.path in self._keys}
        self._known = in_use | by_name
        return by_name

    def describe(self) -> list[dict]:
        """What the page shows of each model, as JSON; an unreadable one has no views and a note why."""
        described = []
        for source in self.sources().values():
            key = _key(source)
            try:
                description = self._described.get(key) or self._described.setdefault(key, describe(source))
            except (OSError, ValueError) as error:  # not kept: it may be being written
                description = unreadable(source, error)
            latest = "" if source.path.endswith(f"@{_step(key)}") or _step(key) is None else _LATEST.format(_step(key))
            note = " ".join(filter(None, (latest, description["note"])))
            described.append({"name": source.name, "path": source.path, **description, "note": note})
        return described

    def open(self, name: str | None) -> PlaygroundModel:
        """The model of a name, the vocabulary alone for None; BadRequest for a SavedModel."""
        model = self.open_any(name)
        if model.exported is not None:
            raise BadRequest(f"Expected a kbert model. Received: {name}, a SavedModel, which only gives answers")
        return model

    def open_any(self, name: str | None) -> PlaygroundModel | ExportedModel:
        """The model or SavedModel of a name, the vocabulary alone for None."""
        if name is None:
            return self._without_model
        source = self._known.get(name) or self.sources().get(name)  # log directories may be large
        if source is None:
            names = ", ".join(list(self._known)[:10]) or "none"
            raise BadRequest(f"`model`: expected one of the models that are offered: {names}. Received: {name[:60]!r}")
        return self._load(source)

    def open_for_pairs(self, name: str | None) -> tuple[PlaygroundModel, ExportedModel | None]:
        """The model that makes pairs of sentences, and the SavedModel that judges them, if one is asked.

        A SavedModel's tokenizer cannot be used alone: the default vocabulary makes its pairs.
        """
        model = self.open_any(name)
        if model.exported is None:
            return model, None
        model.check_task("pretraining", "next_sentence")
        return self._without_model, model

    def _load(self, source):
        key = _key(source)
        if key[1] == 0:  # a checkpoint that its run has deleted answers as long as it is in memory
            key = self._keys.get(source.path, key)
        if (loaded := self._loaded_before(key)) is not None:
            return loaded
        with self._loading:
            if (loaded := self._loaded_before(key)) is not None:  # by another thread, while this one waited
                return loaded
            load = ExportedModel if source.is_saved_model else PlaygroundModel.load
            try:
                model = load(source.path)
            except (OSError, ValueError) as error:
                raise BadRequest(first_line(error)) from error
            with self._lock:
                self._keys[source.path] = key
                self._loaded[key] = model
                # The requested one stays, however large.
                while len(self._loaded) > 1 and sum(map(_parameters, self._loaded.values())) > _PARAMETERS:
                    self._loaded.popitem(last=False)
            return model

    def _loaded_before(self, key):
        """The model, now the last used; None if it is not in memory."""
        with self._lock:
            if key in self._loaded:
                self._loaded.move_to_end(key)
            return self._loaded.get(key)

    @property
    def _without_model(self):
        with self._vocabulary_lock:
            return self._vocabulary_alone

    @functools.cached_property
    def _vocabulary_alone(self):
        return PlaygroundModel(BertTokenizer(self._vocabulary or _learned_vocabulary()))


def _learned_vocabulary():
    from kbert.corpus.installed_prose import STANDARD_LIBRARY, installed_documents
    from kbert.text.learn_vocabulary import learn_vocabulary

    documents = installed_documents((STANDARD_LIBRARY,), _LEARNED_SENTENCES)
    return learn_vocabulary((sentence for _, _, sentences in documents for sentence in sentences), _LEARNED_SIZE)


def _parameters(model):
    return model.exported.parameters if model.exported is not None else model.model.count_params()


def _step(key):
    """The step of a checkpoint of a run; None: a model."""
    return checkpoint_step(key[0]) if is_step_checkpoint(key[0]) else None


def _key(source):
    """The model's path and when it was written: a run may be resumed, a model replaced."""
    try:
        path = local_source(source.path) or source.path
    except FileNotFoundError:
        path = source.path
    place = pathlib.Path(path)
    return str(path), place.stat().st_mtime_ns if place.exists() else 0
