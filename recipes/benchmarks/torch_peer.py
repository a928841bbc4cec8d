"""transformers on torch: the same work as kbert's, in each setting that may be the fastest.

The allocator is set up by the environment of the process (turns.TUNED), and the precision by the setting.
"""

import contextlib

from turns import is_installed, timed

PRECISIONS = {"float32": ("float32",), "mixed_bfloat16": ("autocast bfloat16", "bfloat16 model")}


def torch_settings(precision: str) -> list[str]:
    """The settings in the precision of a Keras policy; none where torch or transformers is not installed."""
    kinds = PRECISIONS[precision] if is_installed("torch", "transformers") else ()
    return [f"{kind}, {allocator}" for kind in kinds for allocator in ("tuned allocator", "default allocator")]


def _prepared(model, setting):
    """The model in its precision, and the context in which it runs."""
    import torch

    words = setting.replace(",", "").split()  # "autocast bfloat16, …", "bfloat16 model, …", "float32, …"
    if words[0] == "autocast":
        return model, lambda: torch.autocast("cpu", dtype=getattr(torch, words[1]))
    return model.to(getattr(torch, words[0])), contextlib.nullcontext


def _bert_config(config):
    import transformers

    return transformers.BertConfig(
        vocab_size=config.vocabulary_size,
        hidden_size=config.hidden_dim,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        intermediate_size=config.intermediate_dim,
        hidden_dropout_prob=config.hidden_dropout,
        attention_probs_dropout_prob=config.attention_dropout,
    )


def _batch(config, batch_size, sequence_length):
    """Random tokens without padding."""
    import torch

    shape = (batch_size, sequence_length)
    ids = torch.randint(config.vocabulary_size, shape, generator=torch.Generator().manual_seed(0))
    segments = (torch.arange(sequence_length) >= sequence_length // 2).long().expand(shape).contiguous()
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": torch.ones(shape, dtype=torch.long)}


def torch_encoding(config, batch_size, sequence_length, setting):
    """The encoder's forward pass."""
    import torch
    import transformers

    model, context = _prepared(transformers.BertModel(_bert_config(config)).eval(), setting)
    tensors = _batch(config, batch_size, sequence_length)

    def encode():
        with torch.inference_mode(), context():
            model(**tensors)

    return timed(encode)


def torch_training(config, batch_size, sequence_length, predictions, setting, on_all_positions):
    """A masked-LM step, with the head on all positions, as published, or on the masked ones, as kbert."""
    return timed(training_step(config, batch_size, sequence_length, predictions, setting, on_all_positions))


def training_step(config, batch_size, sequence_length, predictions, setting, on_all_positions):
    """A function that does the step and returns its loss."""
    import torch
    import transformers

    model, context = _prepared(transformers.BertForMaskedLM(_bert_config(config)).train(), setting)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    tensors = _batch(config, batch_size, sequence_length)
    masked = torch.zeros_like(tensors["input_ids"], dtype=torch.bool)
    masked[:, torch.linspace(0, sequence_length - 1, predictions).long()] = True
    labels = torch.where(masked, tensors["input_ids"], -100)
    places = masked.flatten().nonzero()[:, 0]

    def loss():
        if on_all_positions:
            return model(**tensors, labels=labels).loss
        states = model.bert(**tensors).last_hidden_state.flatten(0, 1)
        logits = model.cls(states.index_select(0, places))
        return torch.nn.functional.cross_entropy(logits.float(), labels.flatten()[places])

    def step():
        optimizer.zero_grad(set_to_none=True)
        with context():
            found = loss()
        found.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return found

    return step


def torch_serving(path, texts, sequence_length, setting):
    """Strings to embeddings."""
    return timed(serving_call(path, texts, sequence_length, setting))


def serving_call(path, texts, sequence_length, setting):
    """A function that embeds the texts: the mean of the hidden states, of length 1."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model, context = _prepared(transformers.AutoModel.from_pretrained(path).eval(), setting)

    def embed():
        batch = tokenizer(texts, padding=True, truncation=True, max_length=sequence_length, return_tensors="pt")
        with torch.inference_mode(), context():
            states = model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"][:, :, None].float()
            return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    return embed
