"""config.json of a model directory: transformers' fields, and the key ``kbert`` for what they cannot express."""

import dataclasses
import pathlib
import reprlib
from typing import Any

from kbert.config import BertConfig
from kbert.files import read_json
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import ModelSettings, default_labels
from kbert.weights.description import ModelDescription
from kbert.weights.formats.config_names import BERT_CONFIG_FIELDS, ConfigNames, entry

OWN = "kbert"  # the key, and the model_type of models that transformers' BERT would compute differently
CONFIG_NAMES = ConfigNames(
    format="huggingface",
    fields=BERT_CONFIG_FIELDS | {"layer_norm_epsilon": "layer_norm_eps", "causal": "is_decoder"},
    defaults={"hidden_act": "gelu"},
    activations={  # its "gelu" is the erf form, unlike Google's
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_new": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "gelu_python_tanh": "gelu_tanh",
        "gelu": "gelu_erf",
        "gelu_python": "gelu_erf",
        "relu": "relu",
        "silu": "silu",
        "swish": "silu",
        "tanh": "tanh",
    },
)
CLASSES = {  # transformers' class → task
    "BertModel": "encoder",
    "BertForPreTraining": "pretraining",
    "BertForMaskedLM": "masked_lm",
    "BertLMHeadModel": "masked_lm",
    "BertForNextSentencePrediction": "next_sentence",
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "span",
    "BertForMultipleChoice": "multiple_choice",
}
_CLASS_OF_TASK = {
    **{task: name for name, task in reversed(CLASSES.items())},
    "regression": "BertForSequenceClassification",
    "similarity": "BertModel",
}
MULTI_LABEL = "multi_label_classification"  # the value of problem_type


def transformers_class(description: ModelDescription) -> str | None:
    """The transformers class that computes the same outputs as a model, or None."""
    config, arguments = description.config, description.arguments
    has_other_head = any(
        arguments.get(f"head_{name}") not in (None, getattr(config, name))
        for name in ("activation", "layer_norm_epsilon")
    )
    pools_last = config.pooled_token == "last" and description.has_pooler
    if description.quantized_layers or pools_last or has_other_head:
        return None
    if description.task == "masked_lm" and config.causal:
        return "BertLMHeadModel"
    return _CLASS_OF_TASK.get(description.task)


def config_json(
    description: ModelDescription,
    settings: ModelSettings,
    storage_dtype: str = "float32",
    lora_layers: dict[str, list] | None = None,
) -> dict[str, Any]:
    """The content of config.json.

    Its ``dtype`` is float32 whatever the storage type, because transformers 5 computes in that type.
    """
    config, arguments = description.config, description.arguments
    name = transformers_class(description)
    fields = {
        "architectures": [name or task_class(description.task).model_class().__name__],
        "model_type": "bert" if name else OWN,
        "dtype": "float32",
        **CONFIG_NAMES.from_kbert(config),
        "position_embedding_type": "absolute",
        "tie_word_embeddings": arguments.get("tied", True),
    }
    if "dropout" in arguments:
        fields["classifier_dropout"] = arguments["dropout"]
    if description.task == "regression":
        fields |= {"problem_type": "regression", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    elif (number := arguments.get("num_labels")) is not None:
        labels = settings.task.labels or default_labels(number)[1]
        fields["id2label"] = {str(i): label for i, label in enumerate(labels)}
        fields["label2id"] = {label: i for i, label in enumerate(labels)}
        fields |= {"problem_type": MULTI_LABEL} if arguments.get("multi_label") else {}
    own = settings.to_dict()
    own["tokenizer"] = {name: own["tokenizer"][name] for name in ("special_tokens_in_text",) if own["tokenizer"]}
    own |= {
        "model": description.arguments,
        "encoder": description.encoder_arguments,
        "position_embedding": config.position_embedding,
        "pooled_token": config.pooled_token,
        "storage_dtype": storage_dtype,
    }
    own |= {"quantized_layers": description.quantized_layers} if description.quantized_layers else {}
    own |= {"lora_layers": lora_layers} if lora_layers else {}
    return {**fields, OWN: own}


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """A config.json: its fields, the architecture and, with a key ``kbert``, the model and settings that kbert saved.

    Another program may have replaced the model's head since.
    """

    path: pathlib.Path
    fields: dict[str, Any]
    config: BertConfig
    own: ModelDescription | None = None
    settings: ModelSettings | None = None
    lora_layers: dict[str, list] = dataclasses.field(default_factory=dict)

    @property
    def architecture(self) -> str | None:
        """transformers' class."""
        names = self.fields.get("architectures")
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None

    def labels(self, number: int) -> list[str] | None:
        """The `number` names in ``id2label``, or None if the config has none."""
        names = entry(self.fields, "id2label", dict, self.path)
        if not names:
            return None
        labels = [names.get(str(i)) for i in range(number)]
        is_named = len(names) == number and all(isinstance(label, str | int | float) for label in labels)
        labels = [str(label) for label in labels]
        if not is_named or len(set(labels)) < number:
            raise ValueError(
                f"{self.path}: id2label must name the labels 0 … {number - 1}, one for each output, all different. "
                f"Received: {reprlib.repr(names)}"
            )
        return labels

    def with_labels(self, settings: ModelSettings, arguments: dict[str, Any]) -> ModelSettings:
        """The settings with the labels in ``id2label``. Thresholds of other labels are dropped."""
        names = settings.task.option_names()
        number = arguments.get("num_labels")
        if number is None or "labels" not in names:
            return settings
        labels, known = self.labels(number), settings.task.labels and list(settings.task.labels)
        if self.settings is not None and known is None and labels == default_labels(number)[1]:
            labels = None  # the model was saved without names for its labels
        stated = {"labels": labels}
        if "thresholds" in names and (labels != known or not arguments.get("multi_label")):
            stated["thresholds"] = None
        return settings.replace(**stated)


def read_model_config(path: pathlib.Path) -> ModelConfig:
    """Reads a config.json, or Google's bert_config.json; ValueError for a part that kbert cannot represent."""
    fields = read_json(path)
    config = CONFIG_NAMES.to_kbert(fields, str(path))
    own = entry(fields, OWN, dict, path)
    if own is None:
        return ModelConfig(path, fields, config)
    try:
        config = BertConfig.from_dict(
            config.to_dict() | {name: own[name] for name in ("position_embedding", "pooled_token")}
        )
        settings = ModelSettings.from_dict({name: own[name] for name in ("task", "sequence_length", "tokenizer")})
        description = ModelDescription(
            settings.task.name, config, own["model"], own["encoder"], own.get("quantized_layers", {})
        )
    except KeyError as error:
        raise ValueError(f"{path}: `{OWN}` lacks {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return ModelConfig(path, fields, config, description, settings, entry(own, "lora_layers", dict, path, {}))
