"""Makes hf_real.npz: what transformers computes with two real models, for tests that must not need torch.

    python ../shared/weights/get_weights.py WEIGHTS
    python tests/golden/hf_real_make.py WEIGHTS        (needs torch and transformers)

Of the hidden states every 24th column is kept, of the masked-LM logits every 97th: enough to notice any difference.
"""

import pathlib
import sys

import numpy as np

SENTENCES = [
    "The river froze early that year, and the mill stood still until March.",
    "How do plants turn sunlight into sugar?",
    "Two naïve café owners — both named Zoë — paid $3.50 for a second-hand piano!",
    "ok",
    "A committee of nine members reviewed the proposal twice, asked for changes to the third section, and then, after "
    "a long evening of argument, sent it back to the author without a decision.",
]
CLOZES = [
    "Paris is the [MASK] of France.",
    "The cat sat on the [MASK].",
    "She opened the [MASK] and read the first [MASK].",
    "[MASK] is the largest planet of the solar system.",
    "He drinks a cup of [MASK] every morning before work.",
]
STATE_STEP, LOGIT_STEP, TOP = 24, 97, 5


def main():
    import torch
    import transformers

    weights = pathlib.Path(sys.argv[1])
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights / "all-MiniLM-L6-v2")
    model = transformers.BertModel.from_pretrained(weights / "all-MiniLM-L6-v2").eval()
    batch = tokenizer(SENTENCES, padding="longest", truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**batch, output_hidden_states=True)
    mask = batch["attention_mask"][:, :, None]
    mean = (outputs.last_hidden_state * mask).sum(1) / mask.sum(1)
    values = {
        "token_ids": batch["input_ids"].numpy().astype("int32"),
        "padding_mask": batch["attention_mask"].numpy().astype(bool),
        "hidden_states": torch.stack(outputs.hidden_states).numpy()[..., ::STATE_STEP],
        "pooled_output": outputs.pooler_output.numpy(),
        "embedding": torch.nn.functional.normalize(mean).numpy(),
    }
    tokenizer = transformers.AutoTokenizer.from_pretrained(weights / "bert-tiny-mlm")
    model = transformers.BertForMaskedLM.from_pretrained(weights / "bert-tiny-mlm").eval()
    logits = []
    for text in CLOZES:
        batch = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            found = model(**batch).logits[0]
        logits += list(found[batch["input_ids"][0] == tokenizer.mask_token_id])
    logits = torch.stack(logits)  # one row a [MASK]
    best = torch.topk(torch.softmax(logits, -1), TOP)
    values["mlm_logits"] = logits.numpy()[:, ::LOGIT_STEP]
    values["tokens"] = np.array([tokenizer.convert_ids_to_tokens(row) for row in best.indices])
    values["probabilities"] = best.values.numpy()
    path = pathlib.Path(__file__).with_name("hf_real.npz")
    np.savez_compressed(path, **values)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
