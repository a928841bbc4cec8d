"""Strings in, answers out: preprocessor, model and answers as one keras.Model.

Shapes: B batch, C choices.
"""

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import keras
import numpy as np
import tensorflow as tf

from kbert.aliases import PathLike
from kbert.answers.answers import Answers
from kbert.checks import check_option
from kbert.errors import SetupError
from kbert.keras_compat import (
    FreshFunctions,
    KerasFiles,
    ShowModel,
    all_layers,
    deserialize,
    pass_inputs_unchanged,
)
from kbert.models.average import with_each_member
from kbert.models.bert_model import BertModel
from kbert.models.check_inputs import lists_to_arrays
from kbert.models.check_targets import check_targets
from kbert.models.copies import in_precision
from kbert.models.lora import lora_layers, merged
from kbert.models.write_saved_model import write_saved_model
from kbert.options import Count
from kbert.pipelines.registry import task_class
from kbert.pipelines.run_in_length_buckets import answer_batch
from kbert.pipelines.targets import check_rows, class_weight_ids, label_ids, split_texts, values_of_windows
from kbert.pipelines.text_columns import TextColumns
from kbert.preprocessing.buckets import longest_first, padding_for, trim_padding
from kbert.preprocessing.preprocessor import Preprocessor
from kbert.preprocessing.strings import (
    as_text,
    check_batches,
    column_names,
    string_columns,
    warn_of_empty_strings,
)
from kbert.preprocessing.window_preprocessors import DocumentPreprocessor

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer

_NO_BATCH = "Pipeline: expected a dataset of batches. Received: an empty dataset"


@keras.saving.register_keras_serializable("kbert")
class Pipeline(KerasFiles, FreshFunctions, keras.Model):
    """A functional `keras.Model` from string columns to answers: what is saved, used for prediction, and served.

    Training and serving share its three parts. `preprocessor` makes batches in tf.data, on which `model` is trained.
    The pipeline predicts with both, and `answers` turns scores into labels or words. `kbert.build_pipeline` puts the
    parts together for a model's task.

    `compile`, `fit` and `evaluate` are the model's, on strings. Losses, metrics and labels are keyed by its outputs (a
    classifier's labels by ``logits``, or without a key). Labels may be the label strings or class numbers, for a
    multi-label classifier a list of them for each text. The windows of a long document are learned with the label and
    the weight of their text, and `evaluate` scores windows. The labels of questions and of tagged words belong to
    windows themselves: `kbert.finetune` trains such models, and `kbert.evaluate` scores them.

    Args:
        preprocessor: from string columns to a batch.
        model: one of kbert's models. It receives the entries of the batch that it takes.
        answers: called as ``answers(model outputs, batch)``.
        name, trainable: as for every Keras model.
        trained_columns: {input: `TextColumns`}, the columns of the tables that the model was fine-tuned on, which
            `predict` also takes. Defaults to none.

    Inputs: dict or pandas DataFrame of string columns [B], named ``preprocessor.input_names`` (``text``, and
    ``text_pair`` for pairs): lists, NumPy arrays or tensors. A single column may be given without the dict. Multiple
    choice takes ``prompt`` [B] and ``choices`` [B, C], which may be lists of unequal lengths or a ragged tensor.
    Rows may also be a list of dicts, or of tuples for several columns. Other columns are ignored, unless they are named
    like the inputs of another model. None, NaN and pandas' NA are empty texts. `predict` also takes a tf.data.Dataset
    of such batches.
    `predict` and `predict_on_batch` return strings as ``str``, whereas calling the pipeline returns tensors.

    Outputs: dict of answers, first dimension B:
        classification: ``label, probabilities``.
        regression: ``score``.
        multiple choice: ``choice, probabilities``.
        spans: ``answer, score, start, end, null_score, n_best_answers, n_best_scores, n_best_count``.
        tagging: ``words, tags, scores, count`` or ``entities, types, starts, ends, scores, count``
            (``kbert.build_pipeline(model, tagging_output="entities")``), as wide as the longest text has words or
            entities.
        fill-mask: ``tokens, probabilities, count`` (as plain values: `kbert.fill_mask`).
        next sentence: ``is_next``.
        encoder: ``embedding``.

    Saving: ``pipeline.save("x.keras")`` saves everything, including vocabulary and labels, and
    ``keras.models.load_model`` reads it in any process that has imported kbert. ``copy.deepcopy`` copies as much.
    ``keras.models.clone_model`` makes a plain functional model of string tensors, with new weights.
    ``pipeline.export(directory)`` writes a SavedModel like Keras, but stores every weight once. `kbert.export` adds
    versions. `kbert.save_pretrained` writes a model directory.

    Raises:
        RuntimeError: the Keras backend is not TensorFlow.
        TypeError: a part of another kind.
        ValueError: on `predict`, a source without a batch, or columns named like inputs that the model does not take.
            On `save`, an ``.h5`` file, which Keras could not load.

    Example::

        pipeline = kbert.build_pipeline(kbert.load_pretrained("runs/sst2"))
        pipeline.predict({"text": ["A charming journey."]})  # {"label": ["positive"], "probabilities": [[0.02, 0.98]]}
    """

    def __init__(
        self,
        preprocessor: Preprocessor,
        model: BertModel,
        answers: Answers,
        name: str | None = None,
        trainable: bool = True,
        trained_columns: Mapping[str, TextColumns] | None = None,
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise SetupError(
                "Pipeline: expected Keras' TensorFlow backend, which reads strings. Received: backend "
                f"{keras.backend.backend()!r}. Train the model itself on batches, save it by "
                "kbert.save_pretrained(model, directory, tokenizer=tokenizer), and load it with "
                "KERAS_BACKEND=tensorflow to predict and to export."
            )
        parts = {
            "preprocessor": (preprocessor, Preprocessor),
            "model": (model, BertModel),
            "answers": (answers, Answers),
        }
        for part_name, (part, kind) in parts.items():
            if not isinstance(part, kind):
                raise TypeError(f"Pipeline: `{part_name}` must be a {kind.__name__}. Received: {part!r:.100}")
        lists = preprocessor.list_columns
        shapes = {name: (None,) if name in lists else () for name in preprocessor.input_names}
        inputs = {name: keras.Input(shape, dtype="string", name=name) for name, shape in shapes.items()}
        batch = preprocessor(inputs)
        missing = sorted(set(model.input) - set(batch))
        if missing:
            raise ValueError(
                f"Pipeline: the preprocessor must make all that the model takes, {sorted(model.input)}. Received: "
                f"{sorted(batch)}; missing: {missing}"
            )
        outputs = answers(model({name: batch[name] for name in model.input}), batch)
        # No other arguments: a functional model of Keras silently ignores those that it does not know.
        super().__init__(inputs=inputs, outputs=outputs, name=name, trainable=trainable)
        self.preprocessor = preprocessor
        self.model = model
        self.answers = answers
        self.trained_columns = dict(trained_columns or {})
        pass_inputs_unchanged(self)  # strings stay with TensorFlow

    @property
    def tokenizer(self) -> "BertTokenizer":
        """The preprocessor's `BertTokenizer`."""
        return self.preprocessor.tokenizer

    @property
    def task(self) -> str:
        """The model's task."""
        return self.model.task

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """The optimizer that `compile` gave the model."""
        return self.model.optimizer

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics that `compile` gave the model."""
        return self.model.metrics

    @property
    def stop_training(self) -> bool:
        """Whether `fit` ends after this batch. Callbacks set it."""
        return self.model.stop_training

    @stop_training.setter
    def stop_training(self, value: bool) -> None:
        self.model.stop_training = value

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the string columns."""
        return self.preprocessor.input_names

    def fingerprint(self) -> str:
        """A hash of all that the answers depend on: weights, sizes, precision, settings and vocabulary."""
        policies = sorted({layer.dtype_policy.name for layer in all_layers(self.model)})  # of an ensemble's members too
        facts = [self.settings(), self.model.config.to_dict(), policies, self.tokenizer.vocabulary]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for weight in self.model.get_weights():
            digest.update(weight.tobytes())
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """What `kbert.save_pretrained` stores besides weights and architecture, by the names of the fields."""
        taken = ("tokenizer", "sequence_length", *task_class(self.task).option_names())
        every = {**self.answers.settings(), **self.preprocessor.settings()}
        return {name: value for name, value in every.items() if name in taken}

    def options(self) -> dict:
        """The settings that `kbert.build_pipeline` takes for the task, to make such a pipeline again."""
        return {name: value for name, value in self.settings().items() if name != "tokenizer"}

    def __call__(self, inputs: Any, *args, **kwargs) -> dict[str, Any]:
        # Not in `call`: Keras checks what comes in before that, and would count the strings of a list.
        if not any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten(inputs)):
            inputs = self.columns(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None, **kwargs) -> dict[str, Any]:
        # The same three steps as the functional graph, but short texts are not padded to the longest of the batch.
        if training or any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten(inputs)):
            return super().call(inputs, training=training, mask=mask, **kwargs)
        return answer_batch(self.model, self.answers, self.preprocessor(inputs))

    def compile(self, *args, **kwargs) -> None:
        self.model.compile(*args, **kwargs)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        *,
        validation_data: Any = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        **kwargs,
    ) -> keras.callbacks.History:
        """`keras.Model.fit` of the model, on strings.

        Every batch is padded to its longest text only, as in `kbert.finetune`: see `batches`.

        Args:
            x: strings as `predict` takes them, or a tf.data.Dataset of (strings, labels) or (strings, labels, weights).
            y: for a model with labels, the label strings or class numbers from 0. A number that is also the label of
                another class is an error. For other models numbers. Also a dict of them by output.
            batch_size: rows of a batch. None: 32. A dataset has batches already.
            epochs, verbose: as in Keras.
            callbacks: Keras callbacks. Their model is the pipeline: ``ModelCheckpoint("best.keras")`` writes the whole
                pipeline.
            validation_data: (x, y), (x, y, weights), or a dataset.
            class_weight: {label string or class number: loss factor}. Or, with `y` in a list or an array, "balanced",
                which gives every class the same total weight, in windows where texts have windows. A number that is
                also another class's label is an error.
            **kwargs: other arguments of `keras.Model.fit`: validation_split, sample_weight, initial_epoch ...

        Returns:
            `keras.callbacks.History`.

        Raises:
            ValueError: labels or a `class_weight` that do not suit the model, or a preprocessor whose windows have
                labels of their own.
            TypeError: a generator, or another source that is neither strings nor a tf.data.Dataset.
        """
        kwargs |= {"epochs": epochs, "verbose": verbose, "callbacks": self._callbacks(callbacks)}
        if self.preprocessor.makes_labels:
            if class_weight is not None:
                self._class_numbers(class_weight, None)  # raises
            return self._fit_on_masks(x, y, batch_size, validation_data=validation_data, **kwargs)
        y = self._targets(y)
        weights = kwargs.pop("sample_weight", None)
        if kwargs.get("validation_split") and not makes_batches(x):
            fraction = kwargs.pop("validation_split")
            weights = lists_to_arrays(weights)
            (x, y, weights), validation_data = split_texts(self.columns(x), fraction, y, weights)
        elif isinstance(validation_data, tuple):
            texts, labels, *rest = validation_data
            validation_data = (texts, self._targets(labels), *rest)
        if isinstance(validation_data, tuple):
            size = kwargs.pop("validation_batch_size", None) or batch_size
            steps = kwargs.get("validation_steps")
            validation_data = self._array_batches(*validation_data, batch_size=size, steps=steps)
        elif validation_data is not None:
            validation_data = self.batches(validation_data)
        if class_weight is not None:
            ids = y
            if isinstance(class_weight, str) and self.preprocessor.makes_windows and not makes_batches(x):
                _, ids, _ = self._batch(x, y)  # "balanced" counts the labels of the windows that are learned
            class_weight = self._class_numbers(class_weight, ids, kwargs.get("validation_split"))
        kwargs |= {"validation_data": validation_data, "class_weight": class_weight}
        if isinstance(x, tf.data.Dataset):
            return self.model.fit(self.batches(x), y, batch_size, sample_weight=weights, **kwargs)
        shuffle = kwargs.pop("shuffle", True)
        data = self._array_batches(x, y, weights, batch_size=batch_size, shuffle=shuffle)
        return self.model.fit(data, shuffle=False, **kwargs)

    def _callbacks(self, callbacks):
        callbacks = keras.tree.flatten(callbacks) if callbacks else []
        return [*callbacks, ShowModel(self, callbacks)]

    def _fit_on_masks(
        self,
        x,
        y=None,
        batch_size=None,
        *,
        validation_data=None,
        validation_split=0.0,
        validation_batch_size=None,
        sample_weight=None,
        shuffle=True,
        **kwargs,
    ):
        """`fit` where masks are the labels: new ones each epoch, by the optimizer's step. Validation keeps its own."""
        if validation_split:
            labels = (lists_to_arrays(y), lists_to_arrays(sample_weight))
            columns = self.preprocessor.training_columns(x)
            (x, y, sample_weight), validation_data = split_texts(columns, validation_split, *labels)
        if validation_data is not None:
            held_out = validation_data if isinstance(validation_data, tuple) else (validation_data,)
            validation_data = self._masked(*held_out, batch_size=validation_batch_size or batch_size or 32)
        size = batch_size or 32
        batches = self._masked(x, y, sample_weight, batch_size=size, step=self._step, shuffle=shuffle)
        return self.model.fit(batches, validation_data=validation_data, shuffle=False, **kwargs)

    def _masked(self, x, y=None, sample_weight=None, **options):
        if makes_batches(x) and not isinstance(x, tf.data.Dataset):
            raise TypeError(f"Pipeline: give strings, or a tf.data.Dataset of batches of them. Received: {x!r}")
        next_sentence = "nsp_logits" in self.model.output
        batches = self.preprocessor.training_batches(x, y, sample_weight, next_sentence=next_sentence, **options)
        padding = padding_for(self.model)

        @tf.autograph.experimental.do_not_convert
        def trim(inputs, *labels):
            return trim_padding(inputs, padding), *labels

        return batches if padding == "full" else batches.map(trim)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        *,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        **kwargs,
    ) -> float | list[float] | dict[str, float]:
        kwargs |= {"verbose": verbose, "steps": steps, "callbacks": self._callbacks(callbacks)}
        if self.preprocessor.makes_labels:
            batches = self._masked(x, y, sample_weight, batch_size=batch_size or 32)
            return self.model.evaluate(batches, **kwargs)
        if isinstance(x, tf.data.Dataset):
            kwargs["sample_weight"] = sample_weight
            return self.model.evaluate(self.batches(x), self._targets(y), batch_size, **kwargs)
        data = self._array_batches(x, self._targets(y), sample_weight, batch_size=batch_size, steps=steps)
        return self.model.evaluate(data, **kwargs)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        *args,
        **kwargs,
    ) -> float | list[float] | dict[str, float]:
        batch = self._one_batch(x, y, sample_weight, self._step)
        if class_weight is not None:
            class_weight = self._class_numbers(class_weight, batch[1])
        return self.model.train_on_batch(*batch, class_weight, *args, **kwargs)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, *args, **kwargs
    ) -> float | list[float] | dict[str, float]:
        return self.model.test_on_batch(*self._one_batch(x, y, sample_weight), *args, **kwargs)

    def batches(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """What `model` is trained and evaluated on, from batches of strings. `fit` and `evaluate` call it.

        Every batch is padded to its longest text, rounded up to a multiple of 4, or to one of a few lengths if XLA
        compiles the model. On a TPU, and for a model whose labels may be by token, it is padded to ``sequence_length``,
        a static shape.

        Args:
            dataset: of strings, (strings, labels) or (strings, labels, weights), as for `fit`.

        Returns:
            The dataset of the model's inputs, label numbers and weights.

        Raises:
            TypeError: no tf.data.Dataset.

        Example::

            pipeline.model.fit(pipeline.batches(dataset).prefetch(2), callbacks=[callback])
        """
        if not isinstance(dataset, tf.data.Dataset):
            raise TypeError(f"Pipeline: expected a tf.data.Dataset of batches of strings. Received: {dataset!r:.100}")
        check_batches(dataset, self.input_names, "Pipeline")

        @tf.autograph.experimental.do_not_convert
        def batch(strings, *labels):
            return self._labelled_batch(strings, *labels)[: 1 + len(labels)]

        return dataset.map(batch, num_parallel_calls=tf.data.AUTOTUNE)

    def _array_batches(self, x, y=None, weights=None, *, batch_size=None, shuffle=None, steps=None):
        """The model's batches from columns of strings. To evaluate (`shuffle` None) the longest rows come first."""
        if not makes_batches(x):
            x = self.columns(x)
            warn_of_empty_strings(x)
        inputs, y, weights = self._batch(x, y, weights)
        if y is None and getattr(self.model, "loss", None):
            pairs = "; kbert.finetune trains on pairs of texts without labels" if self.task == "similarity" else ""
            raise ValueError(f"Pipeline: expected labels `y`, which the loss compares{pairs}. Received: y=None")
        check_targets(self.model, inputs, y, weights)
        parts = tuple(part for part in (inputs, y, weights) if part is not None)
        parts = keras.tree.map_structure(tf.convert_to_tensor, parts)
        lengths = tf.math.count_nonzero(inputs["padding_mask"], axis=-1)
        order = np.arange(len(lengths))
        if shuffle is None and steps is None:
            order, _ = longest_first(lengths if lengths.shape.rank == 1 else tf.reduce_max(lengths, axis=-1))
        rows = tf.data.Dataset.from_tensor_slices(order)
        if shuffle and len(order):
            rows = rows.shuffle(len(order))

        @tf.autograph.experimental.do_not_convert
        def take(numbers):
            inputs, *labels = keras.tree.map_structure(lambda part: tf.gather(part, numbers), parts)
            return trim_padding(inputs, self._padding()), *labels

        return rows.batch(batch_size or 32).map(take, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

    def _padding(self):
        return "full" if self.model.token_outputs else padding_for(self.model)  # labels by token have S values

    def _targets(self, y):
        """Labels as numbers."""
        if self.preprocessor.makes_windows and not isinstance(self.preprocessor, DocumentPreprocessor):
            raise ValueError(
                f"Pipeline: the texts of a {self.task} model become windows, which have labels of their own. Train it "
                "by kbert.finetune(pipeline, task, examples), and score it by kbert.evaluate, with a task object such "
                "as kbert.tasks.SpanExtraction() or kbert.tasks.Tagging()."
            )
        return label_ids(y, self.answers.labels, self.model.multi_label)

    def _one_batch(self, x, y, sample_weight, step=None):
        if self.preprocessor.makes_labels:
            return next(iter(self._masked(x, y, sample_weight, batch_size=None, step=step)))
        return self._labelled_batch(x, y, sample_weight)

    def _labelled_batch(self, x, y=None, sample_weight=None):
        return self._batch(x, self._targets(y), sample_weight)

    def _class_numbers(self, class_weight, ids, validation_split=None):
        if self.preprocessor.makes_labels:
            raise ValueError("Pipeline: a masked language model has no classes to weigh. Received: `class_weight`")
        return class_weight_ids(class_weight, self.answers.labels, ids, validation_split)

    def _step(self) -> int:
        return int(keras.ops.convert_to_numpy(self.model.optimizer.iterations))

    def _batch(self, x, y=None, sample_weight=None):
        """(inputs, labels, weights) that the model is trained on, from strings, their labels as numbers and weights."""
        if makes_batches(x):
            raise TypeError(f"Pipeline: give strings, or a tf.data.Dataset of batches of them. Received: {x!r}")
        columns = self.columns(x)
        y, sample_weight = lists_to_arrays(y), lists_to_arrays(sample_weight)
        check_rows(columns, y, sample_weight)
        batch = self.preprocessor(columns)
        if "window_row" in batch:
            y, sample_weight = (values_of_windows(values, batch["window_row"]) for values in (y, sample_weight))
        inputs = {name: batch[name] for name in self.model.input}
        return trim_padding(inputs, self._padding()), y, sample_weight

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: str | int = "auto",
        steps: int | None = None,
        callbacks: Sequence[keras.callbacks.Callback] | keras.callbacks.CallbackList | None = None,
    ) -> dict[str, np.ndarray]:
        check_option("Pipeline", "batch_size", batch_size, Count | None)
        check_option("Pipeline", "steps", steps, Count | None)
        if isinstance(x, tf.data.Dataset):
            check_batches(x, self.input_names, "Pipeline")
        if not makes_batches(x):
            x = self.columns(x)
            if 0 in next(iter(x.values())).shape[:1]:  # Keras cannot predict an empty batch
                return self.predict_on_batch(x)
            warn_of_empty_strings(x)
        if not self.answers.pad_values:
            try:
                answers = super().predict(x, batch_size=batch_size, verbose=verbose, steps=steps, callbacks=callbacks)
            except UnboundLocalError as error:  # Keras 3.15 has no outputs to join
                raise ValueError(_NO_BATCH) from error
            return {name: as_text(answer) for name, answer in answers.items()}
        # Answers as wide as their batch's longest text: Keras could not put them together.
        size = batch_size or 32
        if not isinstance(callbacks, keras.callbacks.CallbackList):
            count = count_batches(x, size, steps)
            callbacks = keras.callbacks.CallbackList(
                callbacks, add_progbar=verbose != 0, verbose=verbose, epochs=1, steps=count, model=self
            )
        self.stop_predicting = False
        answers = []
        callbacks.on_predict_begin()
        for number, batch in enumerate(column_batches(x, size, steps)):
            callbacks.on_predict_batch_begin(number)
            answers.append(self.predict_on_batch(batch))
            callbacks.on_predict_batch_end(number, {"outputs": answers[-1]})
            if self.stop_predicting:
                break
        callbacks.on_predict_end()
        return join_padded(answers, self.answers.pad_values)

    def predict_on_batch(self, x: Any) -> dict[str, np.ndarray]:
        answers = super().predict_on_batch(self.columns(x))
        return {name: as_text(answer) for name, answer in answers.items()}

    def export(
        self,
        filepath: PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Sequence[Any] | None = None,
        **kwargs,
    ) -> None:
        if format != "tf_saved_model":
            raise ValueError(
                f"Pipeline.export: strings can be exported as a SavedModel only. Received: format={format!r}. "
                f"Export the model on token ids, pipeline.model.export({str(filepath)!r}, format={format!r})."
            )
        signature = [self.preprocessor.string_signature()] if input_signature is None else input_signature
        write_saved_model(filepath, {"serve": (self.merged()._serve, signature)})

    def merged(self) -> "Pipeline":
        """This pipeline or, if its model has LoRA, a pipeline with a copy of the model in which it is merged."""
        return self._with_each_model(merged) if lora_layers(self.model) else self

    def in_precision(self, precision: Literal["float32", "bfloat16"]) -> "Pipeline":
        """A pipeline with a copy of the model that is stored and computed in "float32" or "bfloat16"."""
        return self._with_each_model(lambda model: in_precision(model, precision))

    def _with_each_model(self, copy: Callable[[BertModel], BertModel]) -> "Pipeline":
        parts = self.preprocessor, with_each_member(self.model, copy), self.answers
        return Pipeline(*parts, name=self.name, trained_columns=self.trained_columns)

    def _serve(self, inputs):
        return self(inputs, training=False)

    def columns(self, inputs: Any) -> dict[str, tf.Tensor]:
        """The texts of a batch, in any form that `predict` takes, as a dict of string tensors."""
        if self._are_columns(inputs):
            return inputs
        names = self.preprocessor.input_names
        present = column_names(inputs)
        columns = {name: TextColumns((name,)) for name in names}
        trained = columns | {name: each for name, each in self.trained_columns.items() if name in names}
        trained_names = {name for each in trained.values() for name in each.names}
        # Of both the inputs' own names are taken, unless they are among the columns, as `text` beside `title`.
        are_inputs = set(names) <= set(present) and not set(names) <= trained_names
        if trained_names <= set(present) and not are_inputs:
            columns = trained
        strings = joined_columns(inputs, columns, "Pipeline", self.preprocessor.list_columns)
        check_columns_taken("Pipeline", self.task, set(present) - trained_names, names)
        return strings

    def _are_columns(self, inputs) -> bool:
        lists = self.preprocessor.list_columns
        return (
            type(inputs) is dict
            and tuple(inputs) == self.preprocessor.input_names
            and all(isinstance(column, tf.Tensor) and column.dtype == tf.string for column in inputs.values())
            and all(column.shape.rank == (2 if name in lists else 1) for name, column in inputs.items())
            and len({column.shape[0] for column in inputs.values()}) == 1
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "trainable": self.trainable,
            "preprocessor": self.preprocessor,
            "model": self.model,
            "answers": self.answers,
            "trained_columns": {name: [list(c.names), c.separator] for name, c in self.trained_columns.items()},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> "Pipeline":
        with keras.saving.custom_object_scope(custom_objects or {}):
            parts = {name: deserialize(config[name]) for name in ("preprocessor", "model", "answers")}
        columns = config.get("trained_columns", {}).items()
        parts["trained_columns"] = {name: TextColumns(tuple(names), separator) for name, (names, separator) in columns}
        return cls(**{**config, **parts})


def joined_columns(
    inputs: Any, columns: Mapping[str, TextColumns], owner: str, list_columns: Collection[str] = ()
) -> dict[str, tf.Tensor]:
    """The strings of a pipeline's inputs from `inputs`, as `string_columns` takes them: input → [B], or [B, C]."""
    names = [name for each in columns.values() for name in each.names]
    strings = dict(zip(names, string_columns(inputs, names, owner, list_columns), strict=True))
    return {
        name: tf.strings.join([strings[column] for column in each.names], each.separator)
        if len(each.names) > 1
        else strings[each.names[0]]
        for name, each in columns.items()
    }


_INPUTS = {"text", "text_pair", "question", "context", "prompt", "choices"}  # of all tasks


def check_columns_taken(
    owner: str, task: str, present: Iterable[str], taken: Collection[str], otherwise: str = "Leave them out"
) -> None:
    """Raises ValueError if columns are named like inputs of another model, as `text_pair` for one of single texts."""
    if others := sorted(_INPUTS.intersection(present).difference(taken)):
        hint = ""
        if others == ["text_pair"] and "pair" in task_class(task).option_names():
            hint = ", or make it a model for pairs: kbert.build_pipeline(model, pair=True); --pair of the commands"
        raise ValueError(f"{owner}: this {task} model takes {list(taken)}. Received: also {others}. {otherwise}{hint}")


def makes_batches(x: Any) -> bool:
    """Whether `Pipeline.predict` reads batches of `x`, and not rows."""
    return isinstance(x, (tf.data.Dataset, keras.utils.PyDataset)) or hasattr(x, "__next__")


def column_batches(x: Any, batch_size: int, steps: int | None = None) -> Iterator[Any]:
    """At most `steps` batches of what `Pipeline.predict` takes: a dict of columns [B], or a source of batches."""
    if isinstance(x, dict):
        rows = int(tf.shape(next(iter(x.values())))[0])
        batches = ({k: v[n : n + batch_size] for k, v in x.items()} for n in range(0, rows, batch_size))
    elif isinstance(x, keras.utils.PyDataset):
        batches = (x[n] for n in range(len(x)))
    else:
        batches = iter(x)
    for number, batch in enumerate(batches):
        if steps is not None and number >= steps:
            return
        yield batch[0] if isinstance(batch, tuple) else batch


def count_batches(x: Any, batch_size: int, steps: int | None = None) -> int | None:
    """How many batches `column_batches` yields. None where only reading them would tell."""
    if isinstance(x, dict):
        count = math.ceil(int(tf.shape(next(iter(x.values())))[0]) / batch_size)
    elif isinstance(x, keras.utils.PyDataset):
        count = len(x)
    else:
        count = int(x.cardinality()) if isinstance(x, tf.data.Dataset) else -1  # below 0: not known
    if count < 0:
        return steps
    return count if steps is None else min(count, steps)


def join_padded(batches: Sequence[Mapping[str, Any]], pad_values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Joins batches, dicts of arrays, by row. Arrays with a padding value are padded to the widest."""
    if not batches:
        raise ValueError(_NO_BATCH)
    joined = {}
    for name in batches[0]:
        arrays = [np.asarray(batch[name]) for batch in batches]
        if name in pad_values:
            width = max(array.shape[1] for array in arrays)
            arrays = [
                np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=pad_values[name])
                for array in arrays
            ]
        joined[name] = np.concatenate(arrays)
    return joined
