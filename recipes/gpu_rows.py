"""Write the rows that pretrain_on_gpu.py trains on: the tokens of records, and the pairs that kbert draws from them.

    python recipes/gpu_rows.py records --output rows --lengths 128 512 --epochs 6

The pairs are those of ``kbert pretrain``; the loop masks them anew at every visit. It needs no TensorFlow, this does.
"""

import pathlib

import numpy as np

from kbert.aliases import PathLike
from kbert.cli import Command, run_command
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import MANIFEST, VOCABULARY
from kbert.files import sha256, write_json
from kbert.options import Count, Natural
from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs


def gpu_rows(
    records: PathLike,
    output: PathLike,
    *,
    lengths: list[int] = (128,),
    epochs: Count = 2,
    next_sentence: bool = True,
    seed: Natural = 0,
) -> None:
    """Writes tokens and tables of pairs of records, for training and held out.

    Args:
        records: directory that ``kbert records`` made, with held-out documents.
        output: new directory.
        lengths: tokens of a row, one table each.
        epochs: visits to each document, with new pairs.
        next_sentence: pairs, half of them random; otherwise single segments.
        seed: determines the pairs and their order.
    """
    source, output = Records(records), pathlib.Path(output)
    if not source.held_out:
        raise ValueError(f"{source.directory} holds out no documents, which show how training goes")
    output.mkdir(parents=True)
    (output / VOCABULARY).write_bytes((source.directory / VOCABULARY).read_bytes())
    for held_out, shards in ((False, source.training), (True, source.held_out)):
        pools = [source.pool(number, held_out) for number in range(len(shards))]
        word = "held-out" if held_out else "train"
        np.save(output / f"{word}-tokens.npy", np.concatenate([pool.token_ids.numpy() for pool in pools]))
        for length in lengths:
            tables = []
            for epoch in range(1 if held_out else epochs):
                begin, found = 0, []
                for pool in pools:
                    tokens = max_pair_tokens(length, next_sentence)
                    pairs = sentence_pairs(pool, seed, epoch, tokens, next_sentence=next_sentence)
                    table = np.array([column.numpy() for column in pairs[:5]], np.int32)
                    table[[0, 2]] += begin  # of all tokens, not of the pool's
                    begin += len(pool.token_ids)
                    found.append(table)
                order = np.random.default_rng((seed, epoch)).permutation(sum(t.shape[1] for t in found))
                tables.append(np.concatenate(found, axis=1)[:, order])
            np.save(output / f"{word}-{length}.npy", np.concatenate(tables, axis=1))  # [5, R]
            print(f"{word}, {length} tokens: {tables[0].shape[1]:,} rows an epoch")
    about = {"next_sentence": next_sentence, "lengths": list(lengths), "epochs": epochs, "seed": seed}
    about |= {"tokenizer": source.manifest["tokenizer"], "records": sha256(source.directory / MANIFEST)}
    write_json(output / "rows.json", about)


COMMAND = Command(verb=gpu_rows, positional=("records",), epilog=__doc__)

if __name__ == "__main__":
    run_command(COMMAND)
