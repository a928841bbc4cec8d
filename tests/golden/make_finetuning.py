"""Makes finetuning.npz: the losses of 50 steps of fine-tuning, computed with transformers and torch.

    python tests/golden/make_finetuning.py        (needs torch and transformers)

Weights and batches are functions of names, shapes and numbers, so that the file holds nothing but losses. Dropout is 0.
`original` is the optimizer of google-research/bert (optimization.py, AdamWeightDecayOptimizer), written out line by
line; `torch` is `torch.optim.AdamW` with bias correction. Both clip the global norm at 1 and follow the original's
learning rate: up over the first steps, down linearly to 0, the first step's 0.
"""

import pathlib
import zlib

import numpy as np

HERE = pathlib.Path(__file__).parent
STEPS, WARMUP, DECAY, CLIP = 50, 5, 0.01, 1.0
# High enough to learn in 50 steps, low enough that rounding does not grow: it is what two programs differ by.
PEAK = {"classification": 5e-3, "regression": 5e-3, "multiple_choice": 2e-3}
BATCHES = 5  # that come round again, so that there is something to learn in so few steps
EPSILON = {"original": 1e-6, "torch": 1e-12}  # torch adds it to the corrected root: so small that it does not matter
BATCH, LENGTH, CHOICES, LABELS = 6, 11, 4, 3
SIZES = {
    "vocabulary_size": 37,
    "num_layers": 2,
    "hidden_dim": 12,
    "num_heads": 3,
    "intermediate_dim": 20,
    "max_sequence_length": 13,
}
CASES = {  # task -> optimizers
    "classification": ("original", "torch"),
    "regression": ("original",),
    "multiple_choice": ("original",),
}


def make_batch(step, task):
    """(inputs, labels) of a step: rows of different lengths, and labels that the second token tells."""
    rng = np.random.default_rng(step % BATCHES)
    shape = (BATCH, CHOICES) if task == "multiple_choice" else (BATCH,)
    lengths = rng.integers(4, LENGTH + 1, (*shape, 1))
    inputs = {
        "token_ids": rng.integers(0, SIZES["vocabulary_size"], (*shape, LENGTH)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (*shape, LENGTH)).astype("int32"),
        "padding_mask": np.arange(LENGTH) < lengths,
    }
    second = inputs["token_ids"][..., 1]
    if task == "multiple_choice":
        return inputs, np.argmax(second, axis=-1).astype("int32")
    return inputs, (second % 5 / 2).astype("float32") if task == "regression" else (second % LABELS).astype("int32")


def make_weight(name, shape):
    """The first value of the weight that transformers calls so, float32."""
    values = np.random.default_rng(zlib.crc32(name.encode())).normal(0, 0.15, shape)
    return (values + ("LayerNorm.weight" in name)).astype("float32")


def learning_rate(step, peak):
    """optimization.py, create_optimizer; step counted from 0."""
    return peak * step / WARMUP if step < WARMUP else peak * (1 - step / STEPS)


def make_model(task):
    """transformers' model of a task, as a module without dropout."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=SIZES["vocabulary_size"],
        hidden_size=SIZES["hidden_dim"],
        num_hidden_layers=SIZES["num_layers"],
        num_attention_heads=SIZES["num_heads"],
        intermediate_size=SIZES["intermediate_dim"],
        max_position_embeddings=SIZES["max_sequence_length"],
        type_vocab_size=2,
        hidden_act="gelu_new",
        layer_norm_eps=1e-12,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels={"classification": LABELS}.get(task, 1),
        pad_token_id=None,
        attn_implementation="eager",
    )
    heads = {"multiple_choice": transformers.BertForMultipleChoice}
    model = heads.get(task, transformers.BertForSequenceClassification)(config).train()
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            known_as = name if name.startswith("bert.") else f"{task}.{name}"
            parameter.copy_(torch.from_numpy(make_weight(known_as, tuple(parameter.shape))))
    return model


def loss_of(model, task, step):
    """The loss of a step's batch: cross-entropy, or for regression the mean of the squared differences."""
    import torch

    inputs, labels = make_batch(step, task)
    logits = model(
        input_ids=torch.from_numpy(inputs["token_ids"]).long(),
        token_type_ids=torch.from_numpy(inputs["segment_ids"]).long(),
        attention_mask=torch.from_numpy(inputs["padding_mask"]).long(),
    ).logits
    if task == "regression":
        return torch.nn.functional.mse_loss(logits[:, 0], torch.from_numpy(labels))
    return torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels).long())


def is_decayed(name):
    """optimization.py: exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"]"""
    return "LayerNorm" not in name and "bias" not in name


class OriginalOptimizer:
    """AdamWeightDecayOptimizer.apply_gradients, for torch's parameters."""

    def __init__(self, named_parameters):
        import torch

        self.named = list(named_parameters)
        self.m = [torch.zeros_like(parameter) for _, parameter in self.named]
        self.v = [torch.zeros_like(parameter) for _, parameter in self.named]

    def step(self, rate):
        import torch

        with torch.no_grad():
            for (name, parameter), m, v in zip(self.named, self.m, self.v, strict=True):
                m.mul_(0.9).add_(parameter.grad, alpha=0.1)
                v.mul_(0.999).add_(parameter.grad.square(), alpha=0.001)
                update = m / (v.sqrt() + EPSILON["original"])
                if is_decayed(name):
                    update += DECAY * parameter
                parameter -= rate * update


class TorchOptimizer:
    """torch.optim.AdamW, the weights that are decayed in one group and the others in another."""

    def __init__(self, named_parameters):
        import torch

        named = list(named_parameters)
        groups = [
            {"params": [p for n, p in named if is_decayed(n) == decayed], "weight_decay": DECAY * decayed}
            for decayed in (True, False)
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=EPSILON["torch"])

    def step(self, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


def losses(task, optimizer):
    """The loss of each step, before its update."""
    import torch

    torch.manual_seed(0)
    model = make_model(task)
    optimizer = {"original": OriginalOptimizer, "torch": TorchOptimizer}[optimizer](model.named_parameters())
    values = []
    for step in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, task, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step(learning_rate(step, PEAK[task]))
        values.append(loss.item())
    return np.array(values)


def main():
    values = {f"{task}/{name}": losses(task, name) for task, names in CASES.items() for name in names}
    np.savez(HERE / "finetuning.npz", **values)
    for name, series in values.items():
        print(f"{name}: {series[:5].mean():.4f} -> {series[-5:].mean():.4f}")


if __name__ == "__main__":
    main()
