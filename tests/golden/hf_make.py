"""Makes hf_*/ and hf_values.npz: checkpoints as transformers and torch write them, and what transformers computes.

    python tests/golden/hf_make.py        (needs torch and transformers)

One randomly initialised BertForPreTraining (biases and LayerNorms included; odd, different sizes) in every shape in
which such files are met: safetensors in one file and in shards, torch's zip and its older stream, bfloat16 and float16.
"""

import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # as in the tests
from golden.google_make import VOCABULARY  # noqa: E402

BATCH, LENGTH, PREDICTIONS = 4, 11, 3
CONFIG = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 13,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "hidden_dropout_prob": 0.3,
    "attention_probs_dropout_prob": 0.2,
}


def make_batch(seed=0):
    """Random tokens in rows of different lengths."""
    rng = np.random.default_rng(seed)
    lengths = np.append(rng.integers(4, LENGTH, BATCH - 1), LENGTH)
    return {
        "token_ids": rng.integers(0, CONFIG["vocab_size"], (BATCH, LENGTH)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
        "padding_mask": np.arange(LENGTH) < lengths[:, None],
        "mask_positions": rng.integers(0, lengths[:, None], (BATCH, PREDICTIONS)).astype("int32"),
    }


def run(model):
    """The model's outputs on the batch, under kbert's names."""
    import torch

    batch = make_batch()
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(batch["token_ids"], dtype=torch.long),
            token_type_ids=torch.tensor(batch["segment_ids"], dtype=torch.long),
            attention_mask=torch.tensor(batch["padding_mask"], dtype=torch.long),
            output_hidden_states=True,
        )
    logits = outputs.prediction_logits.numpy()
    return {
        "hidden_states": torch.stack(outputs.hidden_states).numpy(),
        "mlm_logits": np.take_along_axis(logits, batch["mask_positions"][:, :, None], axis=1),
        "nsp_logits": outputs.seq_relationship_logits.numpy(),
    }


def directory(name):
    path = HERE / f"hf_{name}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def main():
    import torch
    import transformers

    torch.manual_seed(0)
    model = transformers.BertForPreTraining(transformers.BertConfig(**CONFIG)).eval()
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "LayerNorm.weight" in name else 0.0, 0.3)
    values = run(model)
    tokenizer = transformers.BertTokenizer({token: i for i, token in enumerate(VOCABULARY)}, do_lower_case=True)
    path = directory("safetensors")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    model.save_pretrained(directory("sharded"), max_shard_size="6KB")
    for name, options in (("bin", {}), ("old_bin", {"_use_new_zipfile_serialization": False})):
        path = directory(name)
        model.config.save_pretrained(path)
        torch.save(model.state_dict(), path / "pytorch_model.bin", **options)
    for name in ("bfloat16", "float16"):
        half = transformers.BertForPreTraining(model.config)
        half.load_state_dict(model.state_dict())
        half = half.to(getattr(torch, name))
        half.save_pretrained(directory(name))
        values |= {f"{name}/{key}": value for key, value in run(half.float().eval()).items()}
    np.savez_compressed(HERE / "hf_values.npz", **values)
    for path in sorted(HERE.glob("hf_*/*")) + [HERE / "hf_values.npz"]:
        print(f"{path.relative_to(HERE)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
