"""Embed sentences, and compare the embeddings.

    python recipes/embed_sentences.py "A man plays." "Somebody makes music." --model all-MiniLM-L6-v2
    python recipes/embed_sentences.py --sts-b glue --model all-MiniLM-L6-v2 --output runs/sts
    python recipes/embed_sentences.py --input sentences.txt --model all-MiniLM-L6-v2 --output runs/embeddings

--model is any encoder that kbert loads; a merely pre-trained BERT does worse than one for sentence similarity. The
pooling is that of the checkpoint if it has one (sentence-transformers), otherwise the mean. Of sentences on the command
line, the cosine similarity of each pair is printed; of --sts-b, STS-B's dev set, Spearman's correlation of it and human
judgement. --output DIR receives embeddings.npy (float32 [sentences, hidden]), settings.json and metrics.json.
"""

import argparse
import itertools
import json
import pathlib

import numpy as np

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    add = parser.add_argument
    add("sentences", metavar="SENTENCE", nargs="*", help="sentences to compare")
    add("--sts-b", metavar="DIR", type=pathlib.Path, help="directory of GLUE, or of STS-B alone")
    pooling = "how a sentence's hidden states become one vector (default: the model's)"
    add("--pooling", choices=("mean", "max", "cls", "pooler"), help=pooling)
    unit = "scale the vectors to length 1 (default: the model's)"
    add("--normalize", action=argparse.BooleanOptionalAction, help=unit)
    cli.add_flags(
        parser,
        *("model", "input", "output", "batch-size", "sequence-length", "json", "overwrite"),
        model={"help": "the encoder"},
        input={"required": False, "help": "a file with one sentence per line"},
        output={"required": False, "help": "where embeddings, metrics and settings go"},
        batch_size={"help": "sentences per batch"},
        sequence_length={"default": None, "help": "tokens of a sentence (default: those of the longest)"},
    )
    args = parser.parse_args(argv)
    if sum([bool(args.sentences), bool(args.input), bool(args.sts_b)]) != 1:
        parser.error("give exactly one of: sentences, --input FILE, --sts-b DIR")
    return args


def main(argv=None):
    args, run = parse_arguments(argv), None
    with cli.plain_errors():
        from kbert.files import atomic_file
        from kbert.tasks.encoder import similarity
        from kbert.tasks.text_files import iterate_lines
        from kbert.training.run_directory import open_run

        first, second, scores = similarity.read_sts_b(args.sts_b) if args.sts_b else ([], [], [])
        sentences = list(iterate_lines(args.input)) if args.input else [*args.sentences, *first, *second]
        if not sentences:
            raise ValueError(f"{args.input} holds no sentence")
        options = cli.given(args, "sequence_length", "pooling", "normalize")
        pipeline = similarity.embedding_pipeline(args.model, sentences, **options)
        if args.output:
            about = {"inputs": cli.inputs_of(args, sts_b=args.sts_b and similarity.sts_b_file(args.sts_b))}
            run = open_run(args.output, cli.settings_of(args), args.overwrite, recipe="embed_sentences.py", **about)
    embeddings, metrics = similarity.embed_sentences(pipeline, sentences, args.batch_size)
    for i, j in itertools.combinations(range(len(args.sentences)), 2):
        print(f"{similarity.cosine(embeddings[i], embeddings[j]):6.3f}  {sentences[i]}  |  {sentences[j]}")
    if args.sts_b:
        metrics |= similarity.score_pairs(embeddings, scores)
        print(f"STS-B dev, {len(first)} pairs: Spearman {metrics['spearman']:.4f}, Pearson {metrics['pearson']:.4f}")
    if run:
        with atomic_file(run.path / "embeddings.npy", "wb") as written:
            np.save(written, embeddings)
        run.finish(metrics)
        print(f"Wrote {run.path / 'embeddings.npy'}: {embeddings.shape[0]} x {embeddings.shape[1]}.")
    if args.json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    cli.run_program(main)
