"""The weights of a Hugging Face directory, in one file or in shards, by the library's current names."""

import pathlib
import reprlib

import numpy as np

from kbert.files import read_json
from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.files.tensor_file import TensorFile
from kbert.weights.files.torch_pickle import TorchPickleFile
from kbert.weights.formats.name_table import NameTable

LAYERS = {  # path → name, as in Google's code but for its slashes
    "embeddings/token_embedding": "bert.embeddings.word_embeddings",
    "embeddings/segment_embedding": "bert.embeddings.token_type_embeddings",
    "embeddings/position_embedding": "bert.embeddings.position_embeddings",
    "embeddings/layer_norm": "bert.embeddings.LayerNorm",
    "encoder_block_{i}/attention/query": "bert.encoder.layer.{i}.attention.self.query",
    "encoder_block_{i}/attention/key": "bert.encoder.layer.{i}.attention.self.key",
    "encoder_block_{i}/attention/value": "bert.encoder.layer.{i}.attention.self.value",
    "encoder_block_{i}/attention/output": "bert.encoder.layer.{i}.attention.output.dense",
    "encoder_block_{i}/attention_layer_norm": "bert.encoder.layer.{i}.attention.output.LayerNorm",
    "encoder_block_{i}/feed_forward/intermediate": "bert.encoder.layer.{i}.intermediate.dense",
    "encoder_block_{i}/feed_forward/output": "bert.encoder.layer.{i}.output.dense",
    "encoder_block_{i}/feed_forward_layer_norm": "bert.encoder.layer.{i}.output.LayerNorm",
    "pooler/dense": "bert.pooler.dense",
    "masked_lm_head/transform": "cls.predictions.transform.dense",
    "masked_lm_head/layer_norm": "cls.predictions.transform.LayerNorm",
    "next_sentence_head/dense": "cls.seq_relationship",
    "classifier_head/dense": "classifier",
    "regressor_head/dense": "classifier",
    "span_head/dense": "qa_outputs",
    "tagger_head/dense": "classifier",
    "multiple_choice_head/dense": "classifier",
}
NAMES = NameTable(
    "huggingface",
    names={
        "masked_lm_head/output_embeddings": "cls.predictions.decoder.weight",
        "masked_lm_head/output_bias": "cls.predictions.bias",
    },
    layers=LAYERS,
    parts={"embeddings": ".weight", "kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias"},
    transposed_kernels=True,
)
WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
CONFIG, OLD_CONFIG = "config.json", "bert_config.json"  # the latter is Google's, as pytorch-pretrained-bert wrote it
_INDEX = ".index.json"
_FILES = {  # in the order in which they are looked for
    WEIGHTS: SafetensorsFile,
    WEIGHTS + _INDEX: SafetensorsFile,
    PICKLE: TorchPickleFile,
    PICKLE + _INDEX: TorchPickleFile,
}
_ENCODER = ("embeddings.", "encoder.", "pooler.")  # the first parts of names in a BertModel saved by itself
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
TABLE = "bert.embeddings.word_embeddings.weight"
POOLER = "bert.pooler.dense.weight"
POSITIONS = "bert.embeddings.position_embeddings.weight"
DECODER = "cls.predictions.decoder.weight"
BIAS = "cls.predictions.bias"
DECODER_BIAS = "cls.predictions.decoder.bias"


def find_huggingface_weights(path: pathlib.Path) -> tuple[pathlib.Path, type] | None:
    """The file of weights in a directory, or the one that is named, and its reader; None if there is none.

    safetensors come before pickles, and one file before shards. A config means its directory.
    """
    if path.is_file() and path.name in _FILES:
        return path, _FILES[path.name]
    if path.name in (CONFIG, OLD_CONFIG):
        path = path.parent
    return next(((path / name, reader) for name, reader in _FILES.items() if (path / name).is_file()), None)


def open_huggingface_weights(path: pathlib.Path) -> TensorFile:
    """The weights at a path where `find_huggingface_weights` finds some."""
    file, reader = find_huggingface_weights(path)
    return _ShardedFile(file, reader) if file.name.endswith(_INDEX) else reader(file)


class _ShardedFile:
    """Several files of tensors as one `TensorFile`, by the ``weight_map`` of an index."""

    def __init__(self, path, reader):
        self.path = pathlib.Path(path)
        weight_map = read_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise ValueError(
                f"{path}: expected a `weight_map` from tensors to files. Received: {reprlib.repr(weight_map)}"
            )
        outside = [name for name in weight_map.values() if pathlib.Path(name).name != name]
        if outside:
            raise ValueError(f"{path}: shards must lie beside their index. Received: {outside[0]!r}")
        shards = {name: reader(self.path.with_name(name)) for name in sorted(set(weight_map.values()))}
        lacking = [tensor for tensor, name in weight_map.items() if tensor not in shards[name].tensors]
        if lacking:
            raise ValueError(
                f"{path}: the tensor {lacking[0]!r} is not in {weight_map[lacking[0]]}. The files do not belong "
                "together."
            )
        self._shards = {tensor: shards[name] for tensor, name in weight_map.items()}
        self.tensors = {tensor: shard.tensors[tensor] for tensor, shard in self._shards.items()}

    def read(self, name: str) -> np.ndarray:
        return self._shards[name].read(name)


def current_names(file: TensorFile) -> tuple[dict[str, str], set[str]]:
    """The library's current names → the names in the file, and the set of names that hold no weights of their own.

    The masked LM's bias may be in the file twice. The library computes with the decoder's.
    """
    names: dict[str, str] = {}
    ignored = set()
    for name in file.tensors:
        current = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if current.startswith(_ENCODER):
            current = "bert." + current
        if name.endswith(_BUFFERS):
            ignored.add(name)
        elif current in names:
            raise ValueError(f"{file.path}: {name!r} and {names[current]!r} are two names of the same variable.")
        else:
            names[current] = name
    if DECODER_BIAS in names:
        if BIAS in names:
            ignored.add(names[BIAS])
        names[BIAS] = names.pop(DECODER_BIAS)
    return names, ignored


def is_tied(file: TensorFile, names: dict[str, str], stated: bool) -> bool:
    """Whether the masked LM shares the embedding table: as the config states, unless the file has a different table.

    Old files have the table twice. transformers, too, treats such a pair as tied only if both are equal.
    """
    if DECODER not in names or TABLE not in names or not stated:
        return stated
    return np.array_equal(file.read(names[DECODER]), file.read(names[TABLE]))
