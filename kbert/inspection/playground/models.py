"""The models on offer: listed without loading them, loaded when first used, the last ones kept in memory.

Shapes: P predictions, V vocabulary.
"""

import collections
import pathlib
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from kbert.inspection.analysis.states import encoder_with_attention
from kbert.inspection.playground.app import first_line
from kbert.inspection.playground.questions import BadRequest
from kbert.inspection.playground.sources import describe, found_sources, named_sources, unreadable
from kbert.models.encoder import BertEncoder
from kbert.models.pretrainer import BertPretrainer
from kbert.options import PathLike
from kbert.pipelines.run_in_length_buckets import run_in_length_buckets
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.text.tokenizer import BertTokenizer
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.source import local_source
from kbert.weights.step_paths import checkpoint_step, is_step_checkpoint

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.preprocessing.preprocessor import Preprocessor

_LONGEST_WITHOUT_MODEL = 512  # tokens: the position table of the released models
_WINDOWS = 64  # of a long text are answered: seconds of a base model
_PARAMETERS = 700_000_000  # in memory: two models of BERT-large's size, or six of BERT-base's
_LATEST = "The latest checkpoint, now of step {}: it moves on while the run trains."
_LEARNED_SIZE = _LEARNED_SENTENCES = 4000  # for a vocabulary if none is given; learning it takes two seconds


class PlaygroundModel:
    """A kbert model with its tokenizer, or a tokenizer alone. Use changes nothing: any number of threads may ask."""

    exported = None

    def __init__(self, tokenizer: BertTokenizer, model: "BertModel | None" = None) -> None:
        self.tokenizer = tokenizer
        self.model = model
        self._lock = threading.RLock()
        self._made = {}

    @classmethod
    def load(cls, source: PathLike) -> "PlaygroundModel":
        """The model of a source as `kbert.load_pretrained` takes it; BadRequest without a vocabulary."""
        model = load_pretrained(source)
        if model.pretrained.tokenizer is None:
            raise BadRequest(f"{source}: expected a model with a vocabulary. Received: one without")
        return cls(model.pretrained.tokenizer, model)

    @property
    def max_length(self) -> int:
        return self.model.config.max_sequence_length if self.model is not None else _LONGEST_WITHOUT_MODEL

    @property
    def parameters(self) -> int:
        return self.model.count_params()

    @property
    def is_causal(self) -> bool:
        """Whether the model is left-to-right, which predicts a token at the position before it."""
        return self.model is not None and self.model.config.causal

    def _once(self, key, make):
        """What `make` returned when `key` was first asked for, in whichever thread."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

    @property
    def plain(self) -> "BertModel":
        """The model for plain rows: one that was trained on packed rows takes them apart."""
        packed = self.model.encoder.num_parts is not None and isinstance(self.model, BertEncoder | BertPretrainer)
        return self._once("plain", lambda: self.model.with_parts(None)) if packed else self.model

    @property
    def encoder(self) -> BertEncoder:
        """`kbert.BertEncoder` for plain rows with ``hidden_states`` and ``attention_probs``."""
        if self.model is None:
            raise BadRequest("Expected a model. Received: none; choose one to see what it computes")
        return self._once("encoder", lambda: encoder_with_attention(self.model.encoder))

    @property
    def pipeline(self) -> "Pipeline":
        """The model's `kbert.Pipeline`, with the sequence length that was stored with it."""
        return self._once("pipeline", lambda: build_pipeline(self.plain, self.tokenizer))

    def has_output(self, name: str) -> bool:
        """Whether there is a model that computes this output, such as ``mlm_logits``."""
        return self.model is not None and name in self.model.output

    def outputs(self, batch: Mapping[str, Any], **more) -> dict[str, np.ndarray]:
        """The model's outputs on a batch and what it lacks, such as ``mask_positions``; without dropout."""
        batch = {**more, **batch}
        outputs = self.plain({name: batch[name] for name in self.plain.input}, training=False)
        return {name: keras.ops.convert_to_numpy(value).astype("float32") for name, value in outputs.items()}

    def masked_lm_loss(self, mask_ids: tf.Tensor | np.ndarray, logits: tf.Tensor | np.ndarray) -> float:
        """The loss of pre-training for one row, ``mask_ids`` [1, P] and ``logits`` [1, P, V]."""
        return float(self._once("loss", self._make_loss)(mask_ids, logits))

    def _make_loss(self):
        loss = self.plain.default_loss()["mlm_logits"]
        # Without static shapes, as XLA would compile the loss anew for every number of masks.
        specs = [tf.TensorSpec([1, None], tf.int32), tf.TensorSpec([1, None, None])]
        return tf.function(lambda ids, logits: loss(ids, logits, tf.ones_like(ids, tf.float32)), specs, autograph=False)

    def check_task(self, *tasks: str) -> None:
        """Raises BadRequest unless the model is of one of these tasks."""
        task = None if self.model is None else self.model.task
        if task not in tasks:
            received = "no model" if task is None else f"one of the task {task}"
            raise BadRequest(f"Expected a model of the task {' or '.join(tasks)}. Received: {received}")

    def run(
        self, preprocessor: "Preprocessor", columns: Mapping[str, str], name: str
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Batch and outputs for one row of strings, as `kbert.Pipeline` computes them; `name` is the long column."""
        inputs = {column: tf.constant([text]) for column, text in columns.items()}
        try:
            batch = preprocessor(inputs, max_windows=_WINDOWS) if preprocessor.makes_windows else preprocessor(inputs)
        except tf.errors.InvalidArgumentError as error:
            if "A request may hold at most" not in str(error):
                raise
            raise BadRequest(
                f"`{name}`: expected a text of at most {_WINDOWS} windows of {preprocessor.sequence_length} tokens. "
                "Received: a longer one"
            ) from None
        return batch, run_in_length_buckets(self.plain, batch)


class ExportedModel:
    """The signatures of a SavedModel of `kbert.export`, given by the directory of a version or model."""

    def __init__(self, directory: PathLike) -> None:
        self.exported = ExportedPipeline(directory)
        self.task = self.exported.task
        self.parameters = self.exported.parameters

    def check_task(self, *tasks: str) -> None:
        if self.task not in tasks:
            received = f"a SavedModel of the task {self.task}"
            raise BadRequest(f"Expected a model of the task {' or '.join(tasks)}. Received: {received}")

    def answer(self, columns: Mapping[str, str], signature: str = "serving_default") -> dict:
        """The outputs of a signature for one row of strings, arrays with the first dimension 1."""
        if signature not in self.exported.signatures:
            others = ", ".join(self.exported.signatures)
            raise BadRequest(f"Expected a SavedModel with the signature {signature}. Received: one with {others}")
        return self.exported.predict_on_batch({name: [text] for name, text in columns.items()}, signature)


class PlaygroundModels:
    """What the playground was pointed at: `sources` by path or name, and what is then found below `log_dirs`.

    `vocabulary` is a path for what needs no model; None: it is learned from the prose of Python's installation.
    """

    def __init__(
        self, sources: Iterable[PathLike] = (), log_dirs: Iterable[PathLike] = (), vocabulary: PathLike | None = None
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise ValueError(
                "The playground needs Keras' TensorFlow backend, which reads strings. Received: backend "
                f"{keras.backend.backend()!r}. Start it with KERAS_BACKEND=tensorflow."
            )
        self.learns_vocabulary = vocabulary is None
        self._named = named_sources(sources)
        self._log_dirs = tuple(log_dirs)
        self._vocabulary = vocabulary
        self._vocabulary_alone = None
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
            note = description["note"]
            if is_step_checkpoint(key[0]) and not source.path.endswith(f"@{checkpoint_step(key[0])}"):
                note = f"{_LATEST.format(checkpoint_step(key[0]))} {note}".rstrip()
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
        """What makes pairs of sentences, and the SavedModel that judges them: its tokenizer cannot be used."""
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
                while len(self._loaded) > 1 and sum(kept.parameters for kept in self._loaded.values()) > _PARAMETERS:
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
            if self._vocabulary_alone is None:
                self._vocabulary_alone = PlaygroundModel(BertTokenizer(self._vocabulary or _learned_vocabulary()))
            return self._vocabulary_alone


def _learned_vocabulary():
    from kbert.corpus.installed_prose import STANDARD_LIBRARY, installed_documents
    from kbert.text.learn_vocabulary import learn_vocabulary

    documents = installed_documents((STANDARD_LIBRARY,), _LEARNED_SENTENCES)
    return learn_vocabulary((sentence for _, _, sentences in documents for sentence in sentences), _LEARNED_SIZE)


def _key(source):
    """The model's path and when it was written: a run may be resumed, a model replaced."""
    try:
        path = local_source(source.path) or source.path
    except FileNotFoundError:
        path = source.path
    place = pathlib.Path(path)
    return str(path), place.stat().st_mtime_ns if place.exists() else 0
