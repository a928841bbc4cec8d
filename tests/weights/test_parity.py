"""What transformers writes, read by kbert: every class, with weights of other sizes, and the tokenizers of both."""

import json
import logging

import numpy as np
import pytest
from helpers.parity import measure_parity
from helpers.stored_models import assert_same_weights, load, make_model
from helpers.tiny_bert import PAIRS, TEXTS, VOCABULARY, tiny_tokenizer

import kbert
from kbert.preprocessing.preprocessor import TextPreprocessor

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

CLASSES = {
    "BertModel": ("encoder", {}),
    "BertForPreTraining": ("pretraining", {}),
    "BertForMaskedLM": ("masked_lm", {}),
    "BertLMHeadModel": ("masked_lm", {"is_decoder": True}),
    "BertForNextSentencePrediction": ("next_sentence", {}),
    "BertForSequenceClassification": ("classification", {"num_labels": 3}),
    "BertForTokenClassification": ("tagging", {"num_labels": 5, "id2label": {i: f"tag {i}" for i in range(5)}}),
    "BertForQuestionAnswering": ("span", {}),
    "BertForMultipleChoice": ("multiple_choice", {}),
}
SAME = (  # fields of the config that come back
    "hidden_act layer_norm_eps hidden_dropout_prob attention_probs_dropout_prob type_vocab_size "
    "max_position_embeddings is_decoder num_attention_heads tie_word_embeddings id2label"
).split()
QUICK = ("BertForPreTraining", "BertForTokenClassification", "BertForMultipleChoice")
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "tanh"]


def make_theirs(name, seed=0, **fields):
    """A model of transformers with random weights, biases and LayerNorms included; odd sizes, no two equal."""
    torch.manual_seed(seed)
    config = dict(
        vocab_size=len(VOCABULARY),
        hidden_size=15,
        num_hidden_layers=3,
        num_attention_heads=5,
        intermediate_size=22,
        max_position_embeddings=19,
        type_vocab_size=3,
        hidden_act=ACTIVATIONS[seed % len(ACTIVATIONS)],
        layer_norm_eps=1e-7,
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.2,
        classifier_dropout=0.4,
    )
    model = getattr(transformers, name)(transformers.BertConfig(**{**config, **fields})).eval()
    for parameter_name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "LayerNorm.weight" in parameter_name else 0.0, 0.3)
    return model


def check_parity(model, path, outputs):
    report = measure_parity(model, path)
    assert "transformers" in report.against
    assert set(report.differences) >= {f"hidden_states/{i}" for i in range(model.config.num_layers + 1)} | set(outputs)
    assert max(report.differences.values()) < 1e-5, report
    assert min(report.largest.values()) > 0.05  # nothing is zero


def heads(model):
    return set() if model.task == "encoder" else set(model.output)


# The heads of the others with stored outputs: test_every_head_computes_what_transformers_does of test_huggingface.py.
@pytest.mark.parametrize(
    "name,seed",
    [pytest.param(name, seed, marks=() if name in QUICK else pytest.mark.slow) for seed, name in enumerate(CLASSES)],
)
def test_what_transformers_writes(name, seed, tmp_path):
    task, fields = CLASSES[name]
    theirs = make_theirs(name, seed, **fields)
    theirs.save_pretrained(tmp_path / "theirs")
    model = load(tmp_path / "theirs")
    assert model.task == task and not model.pretrained.report.newly_initialised and not model.pretrained.report.unused
    check_parity(model, tmp_path / "theirs", heads(model))
    if name == "BertForTokenClassification":
        assert model.pretrained.settings.task.labels == tuple(f"tag {i}" for i in range(5))
    if task in ("classification", "tagging", "multiple_choice"):
        assert model.dropout == 0.4
    kbert.save_pretrained(model, tmp_path / "ours", format="huggingface")
    check_no_warning(theirs, tmp_path / "ours")


def check_no_warning(theirs, path):
    """transformers loads what kbert wrote: nothing missing, nothing left over, no warning, the same numbers."""
    records = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        again, info = type(theirs).from_pretrained(path, output_loading_info=True)
    finally:
        logger.removeHandler(handler)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    standing = "make sure" if theirs.config.is_decoder else None  # said of every decoder, whoever wrote it
    messages = [record.getMessage() for record in records]
    assert not [m for m in messages if standing is None or standing not in m], messages
    for (name, one), (other_name, other) in zip(theirs.named_parameters(), again.named_parameters(), strict=True):
        assert name == other_name and torch.equal(one, other), name
    ours, wanted = again.config.to_dict(), theirs.config.to_dict()
    tanh = {"gelu_new": "gelu_pytorch_tanh", "gelu_fast": "gelu_pytorch_tanh"}  # two spellings of the same function
    wanted["hidden_act"] = tanh.get(wanted["hidden_act"], wanted["hidden_act"])
    assert {key: ours[key] for key in SAME} == {key: wanted[key] for key in SAME}


def test_an_untied_decoder(tmp_path):
    theirs = make_theirs("BertForPreTraining", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path / "theirs")
    model = load(tmp_path / "theirs")
    assert model.tied is False
    check_parity(model, tmp_path / "theirs", heads(model))


def test_tables_that_the_config_calls_tied_but_are_not(tmp_path):
    theirs = make_theirs("BertForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    (tmp_path / "theirs/config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    model = load(tmp_path / "theirs")
    assert model.tied is False
    check_parity(model, tmp_path / "theirs", heads(model))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype, tmp_path):
    theirs = make_theirs("BertModel")
    theirs.to(getattr(torch, dtype)).save_pretrained(tmp_path / "theirs", max_shard_size="8KB")
    model = load(tmp_path / "theirs")
    state = theirs.float().state_dict()
    table = next(v for v in model.weights if v.path == "embeddings/token_embedding/embeddings")
    np.testing.assert_array_equal(table.numpy(), state["embeddings.word_embeddings.weight"].numpy())


def test_a_pickle_of_torch_today(tmp_path):
    theirs = make_theirs("BertForMaskedLM")
    theirs.config.save_pretrained(tmp_path)
    torch.save({name: value for name, value in theirs.state_dict().items()}, tmp_path / "pytorch_model.bin")
    theirs.save_pretrained(tmp_path / "safetensors")
    assert_same_weights(load(tmp_path), load(tmp_path / "safetensors"))


@pytest.mark.parametrize("name", ["classification", "encoder"])
@pytest.mark.parametrize("lowercase,strip_accents", [(True, None), (False, None), (True, False)])
def test_transformers_tokenizes_as_kbert(name, lowercase, strip_accents, tmp_path):
    tokenizer = tiny_tokenizer(lowercase=lowercase, strip_accents=strip_accents)
    kbert.save_pretrained(make_model(name), tmp_path / "out", format="huggingface", tokenizer=tokenizer)
    texts, pairs = [*TEXTS, "É é Paris\tTHE"], [*PAIRS, "Londons"]
    ours = TextPreprocessor(tokenizer, sequence_length=19, pair=True)({"text": texts, "text_pair": pairs})
    for theirs in (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out"),
        transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "out/tokenizer.json"), pad_token="[PAD]"),
    ):
        found = theirs(texts, pairs, padding="max_length", max_length=19, truncation=True, return_token_type_ids=True)
        short = np.array([len(theirs(a, b)["input_ids"]) <= 19 for a, b in zip(texts, pairs, strict=True)])
        assert short.sum() >= 3  # of longer pairs the two libraries cut other ends
        for key, name in (
            ("token_ids", "input_ids"),
            ("padding_mask", "attention_mask"),
            ("segment_ids", "token_type_ids"),
        ):
            np.testing.assert_array_equal(ours[key].numpy()[short], np.array(found[name])[short], err_msg=key)


def test_a_tokenizer_that_transformers_writes(tmp_path):
    theirs = transformers.BertTokenizer(
        {t: i for i, t in enumerate(VOCABULARY)}, do_lower_case=False, strip_accents=True
    )
    make_theirs("BertModel").save_pretrained(tmp_path)
    theirs.save_pretrained(tmp_path)
    tokenizer = load(tmp_path).pretrained.tokenizer
    assert (tokenizer.lowercase, tokenizer.strip_accents, tokenizer.vocabulary) == (False, True, VOCABULARY)
    texts = ["the film is good", "The é 中 never", "paris!"]
    assert tokenizer(texts).to_list() == [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
