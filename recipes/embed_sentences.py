"""Embed sentences, and compare the embeddings.

    python recipes/embed_sentences.py "A man plays." "Somebody makes music." --model all-MiniLM-L6-v2
    python recipes/embed_sentences.py --sts-b glue --model all-MiniLM-L6-v2 --output runs/sts
    python recipes/embed_sentences.py --input sentences.txt --model all-MiniLM-L6-v2 --output runs/embeddings

--model is any encoder that kbert loads, preferably one trained for sentence similarity, since a merely pre-trained BERT
does poorly. The pooling is that of the checkpoint if it has one (sentence-transformers), otherwise the mean. For
sentences on the command line, the cosine similarity of each pair is printed. With --sts-b, the dev set of STS-B (GLUE)
is embedded, and Spearman's correlation of cosine similarity and human judgement is printed. --input is a file with one
sentence per line. --output DIR receives embeddings.npy (float32 [sentences, hidden]), settings.json and metrics.json.
"""

import argparse
import itertools
import json
import pathlib
import time

import numpy as np

from kbert.command_line import add_flags, inputs_of, make_parser, plain_errors, run_program, settings_of


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("sentences", metavar="SENTENCE", nargs="*", help="sentences to compare")
    add("--sts-b", metavar="DIR", type=pathlib.Path, help="directory of GLUE, or of STS-B alone")
    pooling = "how a sentence's hidden states become one vector (default: the model's)"
    add("--pooling", choices=("mean", "max", "cls", "pooler"), help=pooling)
    unit = "scale the vectors to length 1 (default: the model's)"
    add("--normalize", action=argparse.BooleanOptionalAction, default=None, help=unit)
    length = "tokens of a sentence (default: those of the longest, up to the model's maximum)"
    add_flags(
        parser,
        *("model", "input", "output", "batch-size", "sequence-length", "json", "overwrite"),
        model={"help": "the encoder"},
        input={"required": False, "help": "a file with one sentence per line"},
        output={"required": False, "help": "where embeddings, metrics and settings go"},
        batch_size={"help": "sentences per batch"},
        sequence_length={"default": None, "help": length},
    )
    args = parser.parse_args(argv)
    if sum([bool(args.sentences), bool(args.input), bool(args.sts_b)]) != 1:
        parser.error("give exactly one of: sentences, --input FILE, --sts-b DIR")
    return args


def main(argv=None):
    args, run = parse_arguments(argv), None
    with plain_errors():
        from kbert.files import atomic_file
        from kbert.tasks.encoder.similarity import cosine, embedding_pipeline, read_sts_b, score_pairs, sts_b_file
        from kbert.training.progress import PredictionProgress
        from kbert.training.run_directory import open_run

        first, second, scores = read_sts_b(args.sts_b) if args.sts_b else ([], [], None)
        sentences = args.sentences or [*first, *second]
        if args.input:
            sentences = args.input.read_text("utf-8-sig", errors="replace").splitlines()
        if not sentences:
            raise ValueError(f"{args.input} holds no sentence")
        options = {"pooling": args.pooling, "normalize": args.normalize}
        pipeline = embedding_pipeline(args.model, sentences, args.sequence_length, **options)
        if args.output:
            inputs = inputs_of(args, model=args.model, sts_b=args.sts_b and sts_b_file(args.sts_b))
            run = open_run(args.output, settings_of(args), args.overwrite, inputs=inputs, recipe="embed_sentences.py")
    start = time.monotonic()
    options = {"verbose": 0, "callbacks": [PredictionProgress(len(sentences), args.batch_size)]}
    embeddings = pipeline.predict(sentences, args.batch_size, **options)["embedding"]  # [sentences, H]
    metrics = {"sentences": len(sentences), "sentences_per_second": len(sentences) / (time.monotonic() - start)}
    for i, j in itertools.combinations(range(len(args.sentences)), 2):
        print(f"{cosine(embeddings[i], embeddings[j]):6.3f}  {sentences[i]}  |  {sentences[j]}")
    if args.sts_b:
        metrics |= score_pairs(embeddings, scores)
        print(f"STS-B dev, {len(first)} pairs: Spearman {metrics['spearman']:.4f}, Pearson {metrics['pearson']:.4f}")
    if run:
        with atomic_file(run.path / "embeddings.npy", "wb") as written:
            np.save(written, embeddings)
        run.finish(metrics)
        print(f"Wrote {run.path / 'embeddings.npy'}: {embeddings.shape[0]} x {embeddings.shape[1]}.")
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    run_program(main)
