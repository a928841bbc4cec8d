"""Writes a model in the format of Hugging Face's transformers."""

import dataclasses
import pathlib

from kbert.files import write_json
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import SPECIAL_TOKENS, write_vocabulary
from kbert.weights.files.safetensors_file import write_safetensors
from kbert.weights.formats.export_tensors import check_head, check_pooler, export_tensors
from kbert.weights.formats.huggingface.names import CONFIG_NAMES, NAMES
from kbert.weights.formats.huggingface.read import CLASSES, CONFIG, MULTI_LABEL, POOLED_TOKEN
from kbert.weights.formats.huggingface.tokenizer import CONFIG as TOKENIZER_CONFIG
from kbert.weights.formats.huggingface.tokenizer import TOKENIZER, VOCABULARY
from kbert.weights.formats.huggingface.weights_file import WEIGHTS
from kbert.weights.formats.kbert_settings import write_kbert_settings

_WITHOUT_POOLER = ("masked_lm", "tagging", "span")  # classes that are built with add_pooling_layer=False
_BIAS, _DECODER_BIAS = "cls.predictions.bias", "cls.predictions.decoder.bias"


def write_huggingface_directory(directory, model, settings: ModelSettings, vocabulary=None) -> None:
    """Writes ``config.json``, ``model.safetensors`` and the tokenizer's files into a directory.

    The format has labels and tokenizer settings. The rest of `settings` goes into a file beside it.
    """
    directory = pathlib.Path(directory)
    name = class_of(model)
    needed = model.task not in _WITHOUT_POOLER
    tensors = export_tensors(NAMES, model)
    check_head("huggingface", model)
    check_pooler("huggingface", model, needed, reason=f"its {name} has {'one' if needed else 'none'}")
    untied = getattr(model, "masked_lm", False) and not model.tied
    if untied:  # the library computes with the decoder's bias, but needs the other one too
        tensors[_DECODER_BIAS] = tensors[_BIAS]
    pad_id = 0 if vocabulary is None else vocabulary.index(SPECIAL_TOKENS[0])
    write_json(directory / CONFIG, _config(model, name, settings, pad_id, tied=not untied))
    write_kbert_settings(directory, settings)
    if vocabulary is not None:
        write_vocabulary(directory / VOCABULARY, vocabulary)
        write_json(directory / TOKENIZER_CONFIG, _tokenizer_config(settings.tokenizer, model.config))
        write_json(directory / TOKENIZER, _tokenizer(settings.tokenizer, vocabulary))
    write_safetensors(directory / WEIGHTS, tensors, format="pt")


def class_of(model) -> str:
    if model.task == "regression":
        return "BertForSequenceClassification"
    if model.task == "masked_lm" and model.config.causal:
        return "BertLMHeadModel"
    return next(name for name, task in CLASSES.items() if task == model.task)


def _config(model, name, settings, pad_id, tied):
    pooled, config = model.config.pooled_token, model.config
    unused = model.encoder.pooler is None and pooled != CONFIG_NAMES.fixed["pooled_token"]
    if unused:  # for the library nothing is pooled; kbert reads it again, for a later fine-tuning
        config = dataclasses.replace(config, pooled_token=CONFIG_NAMES.fixed["pooled_token"])
    fields = {
        "architectures": [name],
        "model_type": "bert",
        **CONFIG_NAMES.from_kbert(config),
        **({POOLED_TOKEN: pooled} if unused else {}),
        "position_embedding_type": "absolute",
        "pad_token_id": pad_id,
        "tie_word_embeddings": tied,
    }
    if hasattr(model, "dropout"):
        fields["classifier_dropout"] = model.dropout
    if model.task == "regression":
        fields |= {"problem_type": "regression", "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    elif model.num_labels is not None:
        labels = settings.task.labels or [f"LABEL_{i}" for i in range(model.num_labels)]
        fields["id2label"] = {str(i): label for i, label in enumerate(labels)}
        fields["label2id"] = {label: i for i, label in enumerate(labels)}
        fields |= {"problem_type": MULTI_LABEL} if model.multi_label else {}
    return fields


def _own_special_tokens(settings):
    read = settings["special_tokens_in_text"]
    return [token for token in read if token not in SPECIAL_TOKENS] if isinstance(read, list) else []


def _tokenizer_config(settings, config):
    own = _own_special_tokens(settings)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": settings["lowercase"],
        "strip_accents": settings["strip_accents"],
        "tokenize_chinese_chars": settings["split_on_cjk"],
        "model_max_length": config.max_sequence_length,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
        **({"additional_special_tokens": own} if own else {}),
    }


def _tokenizer(settings, vocabulary):
    """The tokenizers library's file: the original's algorithm, with this model's maximum word length."""
    ids = {token: i for i, token in enumerate(vocabulary)}

    def part(token, segment):
        kind = "SpecialToken" if token in ids else "Sequence"
        return {kind: {"id": token, "type_id": segment}}

    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    template = [part("[CLS]", 0), part("A", 0), part("[SEP]", 0)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ids[token], "content": token, **special}
            for token in sorted({*SPECIAL_TOKENS, *_own_special_tokens(settings)}, key=ids.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings["split_on_cjk"],
            "strip_accents": settings["strip_accents"],
            "lowercase": settings["lowercase"],
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": [*template, part("B", 1), part("[SEP]", 1)],
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": settings["max_word_length"],
            "vocab": ids,
        },
    }
