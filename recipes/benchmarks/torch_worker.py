"""transformers on torch, in a process of its own: its allocator is set up by the environment that it starts with.

Reads requests from standard input, one JSON object a line, and answers each with one on standard output:
``{"units": N}`` or ``{"seconds": S}`` does so many units of work on a synthetic batch without padding, or works for so
long, and answers ``{"seconds": [...]}``, one number for each; ``{"texts": [...]}`` answers ``{"seconds": s, "vectors":
[[...]]}``.

    python recipes/benchmarks/torch_worker.py '{"work": "encode", "setting": "float32", ...}'
"""

import contextlib
import json
import sys
import time


def main():
    job = json.loads(sys.argv[1])
    works = {"train": _train, "train_masked_positions": _train, "encode": _encode, "serve": _serve}
    work = works[job["work"]](job)
    answers, sys.stdout = sys.stdout, sys.stderr  # what the libraries print does not get between the answers
    for line in sys.stdin:
        print(json.dumps(_answer(work, json.loads(line))), file=answers, flush=True)


def _answer(work, request):
    if "texts" in request:
        start = time.perf_counter()
        vectors = work(request["texts"])
        return {"seconds": time.perf_counter() - start, "vectors": vectors.tolist()}
    times, begin = [], time.perf_counter()
    while len(times) < request.get("units", 1) or time.perf_counter() - begin < request.get("seconds", 0):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return {"seconds": times}


def _prepared(model, job):
    """The model in its precision, and the context in which it runs."""
    import torch

    words = job["setting"].replace(",", "").split()  # "autocast bfloat16, ...", "bfloat16 model, ...", "float32, ..."
    if words[0] == "autocast":
        dtype = getattr(torch, words[1])
        return model, lambda: torch.autocast("cpu", dtype=dtype)
    return model.to(getattr(torch, words[0])), contextlib.nullcontext


def _tensors(job):
    """A synthetic batch: no padding; predictions at evenly spread positions."""
    import torch

    shape = (job["batch_size"], job["sequence_length"])
    vocabulary = job["config"]["vocab_size"]
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary, shape, generator=generator)
    segments = (torch.arange(shape[1]) >= shape[1] // 2).long().expand(shape).contiguous()
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": torch.ones(shape, dtype=torch.long)}


def _encode(job):
    import torch
    import transformers

    model, context = _prepared(transformers.BertModel(transformers.BertConfig(**job["config"])).eval(), job)
    tensors = _tensors(job)

    def work():
        with torch.inference_mode(), context():
            model(**tensors)

    return work


def _train(job):
    """A pre-training step, its masked-LM head as published, on all positions, or as kbert's, on the masked ones."""
    import torch
    import transformers

    model, context = _prepared(transformers.BertForMaskedLM(transformers.BertConfig(**job["config"])).train(), job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    tensors = _tensors(job)
    ids = tensors["input_ids"]
    masked = torch.zeros_like(ids, dtype=torch.bool)
    masked[:, torch.linspace(0, ids.shape[1] - 1, job["max_predictions"]).long()] = True
    labels = torch.where(masked, ids, -100)
    places = masked.flatten().nonzero()[:, 0]

    def loss_of_all_positions():
        return model(**tensors, labels=labels).loss

    def loss_of_masked_positions():
        states = model.bert(**tensors).last_hidden_state.flatten(0, 1)
        logits = model.cls(states.index_select(0, places))
        return torch.nn.functional.cross_entropy(logits.float(), labels.flatten()[places])

    of_all = job["work"] == "train"
    forward = loss_of_all_positions if of_all else loss_of_masked_positions

    def work():
        optimizer.zero_grad(set_to_none=True)
        with context():
            loss = forward()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return work


def _serve(job):
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(job["model"])
    model, context = _prepared(transformers.AutoModel.from_pretrained(job["model"]).eval(), job)

    def work(texts):
        length = job["sequence_length"]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=length, return_tensors="pt")
        with torch.inference_mode(), context():
            states = model(**batch).last_hidden_state.float()
            mask = batch["attention_mask"][:, :, None].float()
            return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    return work


if __name__ == "__main__":
    main()
