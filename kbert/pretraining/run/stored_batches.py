"""What a pre-training on batches that were written before reads: arrays alone, so that TensorFlow is not needed."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from kbert.config import BertConfig
from kbert.files import read_json, sha256, write_directory
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.batch_files import VOCABULARY, BatchFiles
from kbert.pretraining.run.new_model import dropout_of, new_model
from kbert.text.same_tokenizer import check_same_tokenizer
from kbert.text.vocabulary import read_vocabulary
from kbert.training.stages import Stage
from kbert.weights.formats.kbert import (
    CONFIG,
    WEIGHTS,
    is_kbert_directory,
    read_kbert_vocabulary,
    write_kbert_directory,
)

_STATISTICS_BATCHES = 20


class StoredBatches:
    """A directory of batches as a run learns from it, in place of a `corpus_data.CorpusData`.

    Args:
        settings: `PretrainingSettings`, with what the batches decide.

    Attributes:
        tokenizer: `kbert.BertTokenizer`; None on other backends than TensorFlow's, which may be without it.
        vocabulary, tokenizer_settings: of the batches.
    """

    def __init__(self, settings):
        self.settings = settings
        self.directory = pathlib.Path(settings.source)
        self.vocabulary = read_vocabulary(self.directory / VOCABULARY)
        self.tokenizer_settings = settings.batches["tokenizer"]
        self.tokenizer = None
        if keras.backend.backend() == "tensorflow":
            from kbert.text.tokenizer import BertTokenizer  # not above: it loads TensorFlow

            self.tokenizer = BertTokenizer(self.vocabulary, **self.tokenizer_settings)

    def starting_model(self, hardware, keep_given: bool = False):
        """The model that the run starts from."""
        settings = self.settings
        with hardware.scope():
            if settings.init is None:
                return new_model(settings, len(self.vocabulary))
            model = self._stored_model()
            return model if settings.size is None else grow_model(model, settings.size, seed=settings.seed)

    def _stored_model(self):
        """Without `kbert.load_pretrained`, which knows all tasks and formats and needs TensorFlow for its tokenizer."""
        settings, init = self.settings, self.settings.init
        paths = (pathlib.Path(init), pathlib.Path(init) / "model") if isinstance(init, str | os.PathLike) else ()
        path = next((path for path in paths if is_kbert_directory(path)), None)
        if path is None:
            received = repr(os.fspath(init)) if paths else type(init).__name__
            raise ValueError(
                "pretrain: `init` must be a kbert directory for a training on batches (kbert convert makes one). "
                f"Received: {received}"
            )
        content, task = read_json(path / CONFIG), "pretraining" if settings.next_sentence else "masked_lm"
        if (stored := content["task"]["name"]) != task:
            raise ValueError(f"pretrain: the batches are for a {task} model. Received: {path}, a {stored} model")
        if content.get("quantized_layers"):
            raise ValueError(f"pretrain: training needs float weights. Received: {path}, a quantised model")
        if sha256(path / WEIGHTS) != read_json(path / "manifest.json")["files"][WEIGHTS]["sha256"]:
            raise ValueError(f"{path / WEIGHTS} is damaged: its sha256 is not the one in manifest.json")
        config = BertConfig.from_dict(content["architecture"] | dropout_of(settings))
        own = read_kbert_vocabulary(path, config), content["tokenizer"]
        check_same_tokenizer("pretrain: the batches", own, (self.vocabulary, self.tokenizer_settings))
        if config.causal:
            raise ValueError(f"pretrain: `init` must be a bidirectional model. Received: {path}, a left-to-right one")
        model = BertPretrainer(config, next_sentence=settings.next_sentence, **content["model"])
        model.load_weights(path / WEIGHTS)
        return model

    def batches(self, stage: Stage) -> BatchFiles:
        """The batches of training."""
        return BatchFiles(self.directory)

    def from_step(self, start_step: int, starts: Sequence[int]) -> BatchFiles:
        """The batches from a step on, as `fit_steps` asks for them."""
        return BatchFiles(self.directory, start_step)

    def evaluations(self) -> dict:
        """The held-out batches, of the one phase that there is."""
        return {0: BatchFiles(self.directory, evaluation=True)}

    def count_sequences(self) -> dict:
        """Nothing: of how long an epoch was the batches do not know."""
        return {}

    def describe(self, evaluation) -> tuple[list[float], dict, int | None]:
        """The share of tokens that are not padding; neither metrics nor the tokens of an epoch are known."""
        training = BatchFiles(self.directory)
        masks = [training[n][0]["padding_mask"] for n in range(min(_STATISTICS_BATCHES, len(training)))]
        return [float(np.mean(masks))], {}, None

    def baseline(self, metrics: Mapping) -> dict:
        """None: token frequencies were not counted."""
        return {}

    def save(self, model, settings, path, made_by) -> None:
        """Writes the model of the run, without `kbert.save_pretrained`, which needs TensorFlow."""

        def write(partial):
            write_kbert_directory(partial, model, settings, self.vocabulary, made_by)

        write_directory(path, write, needed=4 * model.count_params())
