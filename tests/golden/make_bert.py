"""Makes bert_gelu_tanh.npz and bert_gelu_erf.npz: what Hugging Face's BERT computes, for tests without torch.

    python tests/golden/make_bert.py        (needs torch and transformers)

Sizes are odd and all different, so that swapped axes cannot pass. Every weight is random, biases and LayerNorms
included. Names in the file: ``weights/<Hugging Face name>`` (task heads ``weights/<task>.<name>``), ``inputs/...``,
``outputs/...``, ``gradients/<Hugging Face name>`` of `pretraining_loss`.
"""

import copy
import pathlib

import numpy as np

SIZES = {
    "vocabulary_size": 37,
    "num_layers": 3,
    "hidden_dim": 12,
    "num_heads": 2,
    "intermediate_dim": 20,
    "max_sequence_length": 13,
    "num_segments": 4,
}
BATCH, LENGTH, PREDICTIONS, CHOICES, LABELS = 5, 11, 7, 3, 9


def reference(sizes=SIZES, activation="gelu_tanh", seed=0, batch=BATCH, length=LENGTH, gradients=True):
    """Weights, inputs, outputs and gradients of a randomly initialised BERT, as arrays by name."""
    import torch

    torch.manual_seed(seed)
    inputs = make_inputs(sizes, np.random.default_rng(seed), batch, length)
    models = make_models(sizes, activation)
    values = {f"inputs/{name}": value for name, value in inputs.items()}
    with torch.no_grad():
        values |= {f"outputs/{name}": tensor.numpy() for name, tensor in run_models(models, inputs).items()}
    for name, parameter in models["pretraining"].named_parameters():
        values[f"weights/{name}"] = parameter.detach().numpy()
    for task in ("classification", "tagging", "span", "multiple_choice"):
        for name, parameter in models[task].named_parameters():
            if not name.startswith("bert."):
                values[f"weights/{task}.{name}"] = parameter.detach().numpy()
    if gradients:
        pretraining_loss(models["pretraining"], inputs).backward()
        for name, parameter in models["pretraining"].named_parameters():
            values[f"gradients/{name}"] = parameter.grad.numpy()
    return values


def make_inputs(sizes, rng, batch, length):
    """Rows of different real lengths, the last one full, and labels for the pre-training loss."""
    real = np.append(rng.integers(3, length, batch - 1), length)
    choices = (batch, CHOICES, length)
    return {
        "token_ids": rng.integers(0, sizes["vocabulary_size"], (batch, length)).astype("int32"),
        "segment_ids": rng.integers(0, sizes["num_segments"], (batch, length)).astype("int32"),
        "padding_mask": np.arange(length)[None] < real[:, None],
        "mask_positions": rng.integers(0, length, (batch, PREDICTIONS)).astype("int32"),
        "mask_ids": rng.integers(0, sizes["vocabulary_size"], (batch, PREDICTIONS)).astype("int32"),
        "next_sentence_label": rng.integers(0, 2, batch).astype("int32"),
        "choice_token_ids": rng.integers(0, sizes["vocabulary_size"], choices).astype("int32"),
        "choice_segment_ids": rng.integers(0, sizes["num_segments"], choices).astype("int32"),
        "choice_padding_mask": np.arange(length)[None, None] < rng.integers(2, length + 1, (batch, CHOICES, 1)),
    }


def make_models(sizes, activation):
    """One Hugging Face model a head, all on the encoder of the first."""
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=sizes["vocabulary_size"],
        num_hidden_layers=sizes["num_layers"],
        hidden_size=sizes["hidden_dim"],
        num_attention_heads=sizes["num_heads"],
        intermediate_size=sizes["intermediate_dim"],
        max_position_embeddings=sizes["max_sequence_length"],
        type_vocab_size=sizes["num_segments"],
        hidden_act={"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}[activation],
        layer_norm_eps=1e-12,
        num_labels=LABELS,
        pad_token_id=None,
        attn_implementation="eager",
    )
    classes = {
        "pretraining": transformers.BertForPreTraining,
        "classification": transformers.BertForSequenceClassification,
        "tagging": transformers.BertForTokenClassification,
        "span": transformers.BertForQuestionAnswering,
        "multiple_choice": transformers.BertForMultipleChoice,
    }
    models = {}
    for task, cls in classes.items():
        config.num_labels = 2 if task == "span" else LABELS
        models[task] = model = cls(copy.deepcopy(config)).eval()
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, 1.0 if "LayerNorm.weight" in name else 0.0, 0.25)
        model.bert = models["pretraining"].bert
    config.is_decoder = True
    models["causal"] = transformers.BertModel(config).eval()
    models["causal"].load_state_dict(models["pretraining"].bert.state_dict())
    return models


def arguments(inputs, prefix=""):
    """A batch under Hugging Face's names."""
    import torch

    return {
        "input_ids": torch.tensor(inputs[prefix + "token_ids"], dtype=torch.long),
        "token_type_ids": torch.tensor(inputs[prefix + "segment_ids"], dtype=torch.long),
        "attention_mask": torch.tensor(inputs[prefix + "padding_mask"], dtype=torch.long),
    }


def run_models(models, inputs):
    """The outputs of all models under kbert's names."""
    import torch

    batch = arguments(inputs)
    bert = models["pretraining"].bert(**batch, output_hidden_states=True, output_attentions=True)
    pretraining = models["pretraining"](**batch)
    places = torch.tensor(inputs["mask_positions"], dtype=torch.long)[:, :, None]
    span = models["span"](**batch)
    return {
        "hidden_states": torch.stack(bert.hidden_states),
        "attention_probs": torch.stack(bert.attentions),
        "pooled_output": bert.pooler_output,
        "mlm_logits": torch.take_along_dim(pretraining.prediction_logits, places, 1),
        "nsp_logits": pretraining.seq_relationship_logits,
        "classification": models["classification"](**batch).logits,
        "tagging": models["tagging"](**batch).logits,
        "start_logits": span.start_logits,
        "end_logits": span.end_logits,
        "multiple_choice": models["multiple_choice"](**arguments(inputs, "choice_")).logits,
        "causal_sequence_output": models["causal"](**batch).last_hidden_state,
    }


def pretraining_loss(model, inputs):
    """Masked LM over the given positions (mean) + next sentence (mean)."""
    import torch

    outputs = model(**arguments(inputs))
    places = torch.tensor(inputs["mask_positions"], dtype=torch.long)[:, :, None]
    logits = torch.take_along_dim(outputs.prediction_logits, places, 1)
    cross_entropy = torch.nn.functional.cross_entropy
    masked_lm = cross_entropy(logits.flatten(0, 1), torch.tensor(inputs["mask_ids"], dtype=torch.long).flatten())
    label = torch.tensor(inputs["next_sentence_label"], dtype=torch.long)
    return masked_lm + cross_entropy(outputs.seq_relationship_logits, label)


if __name__ == "__main__":
    for activation in ("gelu_tanh", "gelu_erf"):
        path = pathlib.Path(__file__).with_name(f"bert_{activation}.npz")
        np.savez_compressed(path, **reference(activation=activation, gradients=activation == "gelu_tanh"))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
