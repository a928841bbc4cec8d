"""Tokenise a corpus once, into records that pre-training reads several times faster than text.

    python recipes/prepare_records.py --corpus 'wiki/*.gz' --vocab vocab.txt --output records
    python recipes/pretrain.py --records records --size base ...

--output receives shards of token ids with their indexes, vocab.txt, manifest.json and metrics.json: the counts and a
report of what pre-training will make of them. Documents of the whole corpus are mixed over shards; --held-out of them
are set aside for evaluation. A killed run resumes when the same command is given again. Formats of
corpora: docs/data.md.
"""

import argparse
import json
import os
import shutil
import sys
import time

from flags import add_flags, command, file, inputs_of, plain_errors, positive_int, rate, settings_of


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", metavar="GLOB", required=True,
                        help="text files, compressed or not, tar or zip archives; quote patterns")  # fmt: skip
    parser.add_argument("--vocab", metavar="FILE", type=file, required=True, help="vocab.txt")
    parser.add_argument("--cased", action="store_true", help="do not lower-case or strip accents")
    add_flags(parser, "output")
    parser.add_argument("--format", choices=("auto", "lines", "prose", "wikiextractor"), default="auto",
                        help="of the corpus (default: by the content of each file)")  # fmt: skip
    parser.add_argument("--language", default="en", help="of the corpus, for finding sentences in prose (default en)")
    parser.add_argument("--held-out", type=rate, default=0.01, metavar="SHARE",
                        help="of the documents, for evaluation only (default 0.01)")  # fmt: skip
    parser.add_argument("--shard-tokens", type=positive_int, default=1 << 20, metavar="N",
                        help="about how large a shard is (default 1,048,576 tokens)")  # fmt: skip
    parser.add_argument("--shards-mixed", type=positive_int, default=16, metavar="N",
                        help="shards over which documents are mixed, in memory (default 16)")  # fmt: skip
    parser.add_argument("--sequence-length", type=positive_int, default=128, help="of the report (default 128)")
    add_flags(parser, "seed", "json", "overwrite")
    args = parser.parse_args(arguments)
    if args.sequence_length < 5:
        parser.error(f"--sequence-length must be at least 5, a pair of a token each. Received: {args.sequence_length}")
    return args


def main(arguments=None):
    args = parse_arguments(arguments)
    from kbert.corpus.corpus_files import find_files
    from kbert.corpus.documents import iterate_documents  # after the flags are read: TensorFlow takes seconds to import
    from kbert.corpus.write_records import write_records
    from kbert.pretraining.dataset import pretraining_dataset
    from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
    from kbert.text.tokenizer import BertTokenizer
    from kbert.training.run_directory import open_run

    with plain_errors():
        files = find_files(args.corpus)
        tokenizer = BertTokenizer(args.vocab, lowercase=not args.cased)
        next(iterate_documents(files, args.format, args.language))  # an empty corpus leaves nothing behind
        inputs = inputs_of(args, corpus=files)
        run = open_run(args.output, settings_of(args), args.overwrite, inputs=inputs, recipe="prepare_records.py")
        try:
            records = write_records(
                iterate_documents(files, args.format, args.language),
                tokenizer,
                args.output,
                shard_tokens=args.shard_tokens,
                shuffle_shards=args.shuffle_shards,
                held_out=args.held_out,
                seed=args.seed,
                settings={
                    "corpus": [[path, os.path.getsize(path)] for path in files],
                    "format": args.format,
                    "language": args.language,
                },
                progress=show_progress(),
            )
        except Exception:  # a corpus that cannot be read leaves nothing but shards, from which it resumes
            if not any(args.output.glob("train-*")):
                shutil.rmtree(args.output)
            raise
    metrics = {**records.manifest["counts"], "shards": len(records.training), "held_out_shards": len(records.held_out)}
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in metrics.items()))
    print(f"Pre-training at sequence length {args.sequence_length} will see:")
    dataset = pretraining_dataset(args.output, tokenizer, batch_size=32, sequence_length=args.sequence_length)
    with plain_errors():
        metrics["pipeline"] = dataset_statistics(dataset, tokenizer)
    print(format_report(metrics["pipeline"]))
    run.finish(metrics)
    print(f"Next: python recipes/pretrain.py --records {args.output} --size tiny --steps 10000 --output runs/tiny")
    if args.json:
        print(json.dumps(metrics))


def show_progress(every=5.0):
    """A function that prints the writer's state, on one line of a terminal or now and then on lines of a log."""
    last = 0.0

    def show(state):
        nonlocal last
        if time.monotonic() - last >= every or sys.stdout.isatty():
            last = time.monotonic()
            print(
                f"{state['documents']:,} documents, {state['sentences']:,} sentences, {state['tokens']:,} tokens, "
                f"{state['tokens_per_second']:,.0f} tokens/s",
                end="\r" if sys.stdout.isatty() else "\n",
                flush=True,
            )

    return show


if __name__ == "__main__":
    command(main)
