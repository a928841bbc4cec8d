"""The variables of kbert's models: path and shape of each, known without building a model.

Letters of the shapes: V vocabulary, S positions (length of the table), G segments, H hidden, F intermediate, A heads,
D head width, N labels; digits are literal sizes.
"""

import re

from kbert.config import BertConfig
from kbert.pipelines.registry import task_class, task_names

# Path → letters of the shape, in the order of a model's variables. {i} is the number of the block.
VARIABLES = {
    "embeddings/token_embedding/embeddings": "VH",
    "embeddings/segment_embedding/embeddings": "GH",
    "embeddings/position_embedding/embeddings": "SH",
    "embeddings/layer_norm/gamma": "H",
    "embeddings/layer_norm/beta": "H",
    "encoder_block_{i}/attention/query/kernel": "HH",
    "encoder_block_{i}/attention/query/bias": "H",
    "encoder_block_{i}/attention/key/kernel": "HH",
    "encoder_block_{i}/attention/key/bias": "H",
    "encoder_block_{i}/attention/value/kernel": "HH",
    "encoder_block_{i}/attention/value/bias": "H",
    "encoder_block_{i}/attention/output/kernel": "HH",
    "encoder_block_{i}/attention/output/bias": "H",
    "encoder_block_{i}/attention_layer_norm/gamma": "H",
    "encoder_block_{i}/attention_layer_norm/beta": "H",
    "encoder_block_{i}/feed_forward/intermediate/kernel": "HF",
    "encoder_block_{i}/feed_forward/intermediate/bias": "F",
    "encoder_block_{i}/feed_forward/output/kernel": "FH",
    "encoder_block_{i}/feed_forward/output/bias": "H",
    "encoder_block_{i}/feed_forward_layer_norm/gamma": "H",
    "encoder_block_{i}/feed_forward_layer_norm/beta": "H",
    "pooler/dense/kernel": "HH",
    "pooler/dense/bias": "H",
    "masked_lm_head/transform/kernel": "HH",
    "masked_lm_head/transform/bias": "H",
    "masked_lm_head/layer_norm/gamma": "H",
    "masked_lm_head/layer_norm/beta": "H",
    "masked_lm_head/output_embeddings": "VH",
    "masked_lm_head/output_bias": "V",
    "next_sentence_head/dense/kernel": "H2",
    "next_sentence_head/dense/bias": "2",
    "classifier_head/dense/kernel": "HN",
    "classifier_head/dense/bias": "N",
    "regressor_head/dense/kernel": "H1",
    "regressor_head/dense/bias": "1",
    "span_head/dense/kernel": "H2",
    "span_head/dense/bias": "2",
    "tagger_head/dense/kernel": "HN",
    "tagger_head/dense/bias": "N",
    "multiple_choice_head/dense/kernel": "H1",
    "multiple_choice_head/dense/bias": "1",
}
_POSITIONS = "embeddings/position_embedding/embeddings"
_BLOCK = re.compile(r"^encoder_block_(\d+)/")


def numbered(variable: str) -> tuple[str, str | None]:
    """The path with ``{i}`` for the number of its block, and that number (None if it is in no block)."""
    block = _BLOCK.match(variable)
    return (variable, None) if block is None else ("encoder_block_{i}/" + variable[block.end() :], block[1])


def all_variables() -> dict[str, str]:
    """`VARIABLES`, and the variables of tasks from outside kbert."""
    return VARIABLES | {path: dims for task in task_names() for path, dims in task_class(task).head_variables.items()}


def variable_shape(variable: str, sizes: dict[str, int]) -> tuple[int, ...]:
    path, _ = numbered(variable)
    return tuple(sizes[letter] for letter in VARIABLES.get(path) or all_variables()[path])


def encoder_variables(config: BertConfig, pooler: bool = True) -> list[str]:
    """The paths of an encoder's variables, without building it."""
    names = []
    blocks = block_variables()
    for name in VARIABLES:
        if name == blocks[0]:
            names += [block.format(i=i) for i in range(config.num_layers) for block in blocks]
        elif name == _POSITIONS and config.position_embedding != "learned":
            continue
        elif name.startswith("embeddings/") or (pooler and name.startswith("pooler/")):
            names.append(name)
    return names


def block_variables() -> list[str]:
    """The paths of one block's variables, with ``{i}`` for its number."""
    return [name for name in VARIABLES if name.startswith("encoder_block_")]


def heads_of(task: str) -> tuple[str, ...]:
    """The layers, as first parts of paths, that a model of this task has besides its encoder."""
    return task_class(task).heads


def head_variables(task: str) -> list[str]:
    """The paths of the variables of a task's heads, including the table of an untied decoder."""
    own = task_class(task).head_variables
    return [name for name in VARIABLES if name.split("/")[0] in heads_of(task)] + list(own)


def sizes_of(config: BertConfig, num_labels: int | None = None) -> dict[str, int]:
    """The sizes for the letters of the shapes in a model of this config."""
    sizes = {
        "V": config.vocabulary_size,
        "S": config.max_sequence_length,
        "G": config.num_segments,
        "H": config.hidden_dim,
        "F": config.intermediate_dim,
        "A": config.num_heads,
        "D": config.head_dim,
        "1": 1,
        "2": 2,
    }
    return sizes if num_labels is None else {**sizes, "N": num_labels}
