"""Tokenise a corpus once into records, which pre-training reads several times faster than text.

    python recipes/prepare_records.py --corpus 'wiki/*.gz' --vocab vocab.txt --output records
    python recipes/pretrain.py --records records --size base ...

--output receives shards of token ids with their indexes, vocab.txt, manifest.json, and metrics.json with counts and
statistics of the pre-training examples that they will give. Documents of the whole corpus are shuffled over the shards;
--held-out of them are set aside for evaluation. A killed run resumes when the same command is given again. Formats of
corpora: docs/data.md. With --runner the files are tokenised by Apache Beam on several processes or machines, into the
same records; what follows -- are Beam's own flags: docs/beam.md.

    python recipes/prepare_records.py --corpus 'wiki/*.gz' --vocab vocab.txt --output records --runner DirectRunner \
        -- --direct_num_workers=4 --direct_running_mode=multi_processing
"""

import argparse
import json

from flags import add_flags, command, file, parse_with_beam_flags, plain_errors, positive_int, rate


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    corpus = "text files, compressed or not, tar or zip archives; quote patterns"
    add("--corpus", nargs="+", metavar="GLOB", required=True, help=corpus)
    add("--vocab", metavar="FILE", type=file, required=True, dest="vocabulary", help="vocab.txt")
    add("--cased", action="store_false", dest="lowercase", help="do not lower-case or strip accents")
    add_flags(parser, "output")
    formats = ("auto", "lines", "prose", "wikiextractor")
    add("--format", choices=formats, default="auto", help="of the corpus (default: by the content of each file)")
    add("--language", default="en", help="of the corpus, for finding sentences in prose (default: en)")
    held_out = "of the documents, for evaluation only (default: 0.01)"
    add("--held-out", type=rate, default=0.01, metavar="SHARE", help=held_out)
    shard_tokens = "about how large a shard is (default: 1,048,576 tokens)"
    add("--shard-tokens", type=positive_int, default=1 << 20, metavar="N", help=shard_tokens)
    shuffle_shards = "shards over which documents are mixed, in memory (default: 16)"
    add("--shuffle-shards", type=positive_int, default=16, metavar="N", help=shuffle_shards)
    add("--sequence-length", type=positive_int, default=128, help="of the report (default: 128)")
    add_flags(parser, "seed", "json", "overwrite")
    return parse_with_beam_flags(parser, argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    as_json, output = arguments.pop("json"), arguments["output"]
    with plain_errors():
        from kbert.pretraining.dataset_statistics import format_report
        from kbert.tasks.pretraining.prepare_records import prepare_records

        metrics = prepare_records(**arguments)
    counts = {name: count for name, count in metrics.items() if name != "pipeline"}
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()))
    print(f"Pre-training at sequence length {arguments['sequence_length']} will see:")
    print(format_report(metrics["pipeline"]))
    if metrics["held_out_shards"]:
        options = "--size tiny --steps 10000 --learning-rate 1e-3 --output runs/tiny"
        print(f"Next: python recipes/pretrain.py --records {output} {options}")
    if as_json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    command(main, resumes=True)
