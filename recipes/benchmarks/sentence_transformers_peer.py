"""Train the same embeddings with kbert and with sentence-transformers: speed in turn, and STS-B of both.

    PYTHONPATH=recipes python recipes/benchmarks/sentence_transformers_peer.py --corpus 'wiki/*.gz' --glue glue

Both begin with kbert-mini and see the same pairs of neighbouring sentences, each in its own order. Loss (mean pooling,
cosine, temperature 0.05), optimizer and schedule are the same, in float32. A batch is padded to its longest text. The
systems take turns, ten steps each.
"""

import argparse
import json
import pathlib
import statistics
import tempfile
import time

import keras
import numpy as np
from embeddings import pairs_of

import kbert
from kbert.optim import WarmupLinearDecay
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

TURN = 10  # steps
RATE = 3e-5
TEMPERATURE = 0.05
LENGTH = 64
DROPOUT = 0.1


def kbert_trainer(source, pairs, batch_size, steps):
    """(function that trains for a turn, function of texts that embeds them)."""
    rates = {"hidden_dropout": DROPOUT, "attention_dropout": DROPOUT}
    model = kbert.load_pretrained(source, task="similarity", temperature=TEMPERATURE, **rates)
    pipeline = kbert.build_pipeline(model, sequence_length=LENGTH)
    task = kbert.tasks.Similarity(text_pair="pair")
    batches = task.training_data(
        pipeline, task.read(pairs), batch_size=batch_size, seed=0, padding="bucket", group_by_length=False
    )
    schedule = WarmupLinearDecay(RATE, steps // 10, steps)
    model.compile(kbert.AdamW(schedule, weight_decay=0.01, bias_correction=True))  # as torch's
    data = iter(batches.make_dataset())

    def turn():
        for _ in range(TURN):
            model.train_on_batch(*next(data))

    return turn, lambda texts: pipeline.predict(texts, verbose=0)["embedding"]


def peer_trainer(directory, pairs, batch_size, steps):
    """The same of sentence-transformers, from a directory in Hugging Face's format."""
    import sentence_transformers
    import torch
    from sentence_transformers.sentence_transformer import losses, modules

    encoder = modules.Transformer(directory, max_seq_length=LENGTH)
    pooling = modules.Pooling(encoder.get_embedding_dimension(), "mean")
    model = sentence_transformers.SentenceTransformer(modules=[encoder, pooling, modules.Normalize()], device="cpu")
    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = DROPOUT
    loss = losses.MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
    plain = [weight for name, weight in model.named_parameters() if "LayerNorm" in name or name.endswith("bias")]
    decayed = [weight for weight in model.parameters() if not any(weight is one for one in plain)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, eps=1e-6)
    warmup = steps // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / warmup, (steps - step) / (steps - warmup))
    )
    rows = (pairs[row] for epoch in range(steps) for row in np.random.default_rng(epoch).permutation(len(pairs)))

    def turn():
        model.train()
        for _ in range(TURN):
            batch = [next(rows) for _ in range(batch_size)]
            features = [model.preprocess([pair[side] for pair in batch]) for side in (0, 1)]
            loss(features, None).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()

    return turn, lambda texts: model.encode(texts, show_progress_bar=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--glue", required=True)
    parser.add_argument("--source", default="saved_models/kbert-mini/model")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--output", type=pathlib.Path)
    asked = parser.parse_args()
    pairs = pairs_of(asked.corpus, "neighbours", asked.pairs)
    scored = kbert.tasks.Similarity(text="sentence1", text_pair="sentence2", label="score", score_range=(0, 5))
    dev = scored.read(GLUE_TASKS["STS-B"].path(asked.glue, "dev"))
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as directory:
        encoder = kbert.load_pretrained(asked.source, "encoder")
        kbert.save_pretrained(encoder, f"{directory}/mini", format="huggingface")
        systems = {
            "kbert": kbert_trainer(asked.source, pairs, asked.batch_size, asked.steps),
            "sentence-transformers": peer_trainer(f"{directory}/mini", pairs, asked.batch_size, asked.steps),
        }
    seconds = {name: [] for name in systems}
    for _ in range(asked.steps // TURN):
        for name, (turn, _) in systems.items():
            start = time.perf_counter()
            turn()
            seconds[name].append((time.perf_counter() - start) / TURN)
    result = {"steps": asked.steps, "batch_size": asked.batch_size}
    for name, (_, embed) in systems.items():
        one, other = (np.asarray(embed(list(texts))) for texts in (dev.texts, dev.text_pairs))
        cosines = np.sum(one * other, axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        spearman = kbert.tasks.metrics.NUMBER_METRICS["spearman"](dev.scores, cosines)
        result[name] = {"seconds_per_step": statistics.median(seconds[name][1:]), "spearman": spearman}
    times = (result[name]["seconds_per_step"] for name in ("sentence-transformers", "kbert"))
    result["ratio"] = next(times) / next(times)
    print(json.dumps(result, indent=2))
    if asked.output:
        asked.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
