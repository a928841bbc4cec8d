"""The weights of a KerasHub preset, by KerasHub's variable paths."""

import contextlib
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from kbert.weights.tensor_file import TensorFile, TensorInfo

WEIGHTS, SHARDS, TASK_WEIGHTS = "model.weights.h5", "model.weights.json", "task.weights.h5"


def open_kerashub_weights(
    path, fields: dict[str, Any], task: str, num_classes: int, names: Iterable[str]
) -> TensorFile:
    """Opens a preset's weights.

    Files written since Keras names its layers in them are read tensor by tensor. Others (older ones, and shards) are
    loaded by KerasHub into its own model, which takes memory for the weights once more.

    Args:
        path: the preset's directory.
        fields: the arguments of BertBackbone, as in the preset's config.
        task, num_classes: of the model it holds.
        names: the paths of all variables that it must have.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is truncated, or does not fit the config.
    """
    path = pathlib.Path(path)
    weights = path / (SHARDS if (path / SHARDS).is_file() else WEIGHTS)
    files = [weights] if task == "encoder" else [weights, path / TASK_WEIGHTS]
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"No file at {str(file)!r}: the preset is not whole.")
    if weights.name == WEIGHTS:
        direct = H5File(files, names)
        if not direct.missing:
            return direct
    return LoadedByKerasHub(path, files, fields, task, num_classes)


class H5File:
    """Keras' `.weights.h5` files as one `kbert.weights.tensor_file.TensorFile`.

    Args:
        paths: the files.
        names: paths of variables. Those of one layer must come in the order in which the layer holds them.

    Attributes:
        missing: names that were not found: no such variables, or files of an older Keras.
    """

    def __init__(self, paths, names):
        self.path = pathlib.Path(paths[0])
        layers: dict[str, list[str]] = {}
        for name in names:
            layers.setdefault(name.rpartition("/")[0], []).append(name)
        self._places, self.tensors = {}, {}
        for path in paths:
            with _opened(path) as file, _named(path):
                self._walk(file, "", path, layers)
        self.missing = [name for name in names if name not in self.tensors]

    def read(self, name: str) -> np.ndarray:
        path, place = self._places[name]
        with _opened(path) as file, _named(path):
            dataset = file[place]
            if dataset.attrs.get("dtype") == "bfloat16":
                import ml_dtypes

                return np.array(dataset, dtype=ml_dtypes.bfloat16).astype(np.float32)
            return dataset[...]

    def _walk(self, group, layer, path, layers):
        """Notes the variables of a layer, whose name Keras keeps beside them, and of the layers in it."""
        import h5py

        own = group.get("vars")
        if own is not None and group.name != "/":
            layer = "/".join(filter(None, (layer, str(own.attrs.get("name", "")))))
            for name, key in zip(layers.get(layer, ()), map(str, range(len(own))), strict=False):
                # A link or a dataset kept in another file would read what the preset does not hold.
                if isinstance(own.get(key, getlink=True), h5py.HardLink) and not own[key].external:
                    self._places[name] = path, f"{own.name}/{key}"
                    self.tensors[name] = TensorInfo(tuple(own[key].shape), "float32")
        for key in group:
            is_own = isinstance(group.get(key, getlink=True), h5py.HardLink)
            if key != "vars" and is_own and isinstance(group[key], h5py.Group):
                self._walk(group[key], layer, path, layers)


class LoadedByKerasHub:
    """The same out of KerasHub's own model."""

    def __init__(self, path, files, fields, task, num_classes):
        from keras import ops

        self.path = path
        try:
            model = kerashub_model(fields, task, num_classes)
            getattr(model, "backbone", model).load_weights(str(files[0]))
            if len(files) > 1:
                model.load_task_weights(str(files[1]))
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise ValueError(f"{path}: the weights do not fit the config beside them: {error}") from error
        self._variables = {variable.path: variable for variable in model.weights}
        self._to_numpy = ops.convert_to_numpy
        self.tensors = {name: TensorInfo(tuple(v.shape), "float32") for name, v in self._variables.items()}

    def read(self, name: str) -> np.ndarray:
        return self._to_numpy(self._variables[name])


def kerashub_model(fields, task, num_classes=1, preprocessor=None, dropout=0.1):
    """KerasHub's model of a task, newly initialised, in float32.

    Args:
        fields: the arguments of BertBackbone; its name and dtype are left out.
        task: encoder, masked_lm, classification or regression (a classifier of one class).
        num_classes, preprocessor, dropout: of the task's model.

    Raises:
        ImportError: keras_hub is not installed.
    """
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError("this needs keras_hub: pip install keras-nlp", name="keras_hub") from error
    fields = {k: v for k, v in fields.items() if k not in ("name", "trainable", "dtype")}
    backbone = keras_hub.models.BertBackbone(**fields, dtype="float32")
    if task == "encoder":
        return backbone
    if task == "masked_lm":
        return keras_hub.models.BertMaskedLM(backbone, preprocessor=preprocessor)
    return keras_hub.models.BertTextClassifier(
        backbone, num_classes=num_classes, preprocessor=preprocessor, dropout=dropout
    )


@contextlib.contextmanager
def _named(path):
    """What h5py raises of a damaged file, as an error that names it."""
    try:
        yield
    except (OSError, RuntimeError, LookupError, TypeError, AttributeError, UnicodeError) as error:
        raise ValueError(f"{path} is corrupted: {error}. Download or write it again.") from None


def _opened(path):
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} is truncated or no HDF5 file: {error}. Download or write it again.") from None
