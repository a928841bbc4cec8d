"""Tokenise a corpus once into records, which pre-training reads several times faster than text.

    python recipes/prepare_records.py --corpus 'wiki/*.gz' --vocab vocab.txt --output records
    python recipes/pretrain.py --records records --size base ...

--output receives shards of token ids with their indexes, vocab.txt, manifest.json, and metrics.json with counts and
statistics of the resulting pre-training examples. The documents are shuffled within groups of --shuffle-shards shards;
the share --held-out of them is set aside for evaluation. A killed run resumes when the same command is given again.
docs/data.md describes the formats of corpora. With --runner, Apache Beam tokenises the files on several processes or
machines and writes the same records; what follows -- are Beam's own flags (docs/beam.md).

    python recipes/prepare_records.py --corpus 'wiki/*.gz' --vocab vocab.txt --output records --runner DirectRunner \\
        -- --direct_num_workers=4 --direct_running_mode=multi_processing
"""

import json

from kbert.command_line import add_flags, make_parser, parse_with_beam_flags, plain_errors, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add, needed = parser.add_argument, {"required": True}
    add_flags(
        parser, "corpus", "vocab", "cased", "output", "format", "language", "held-out", corpus=needed, vocab=needed
    )
    shard_tokens = "approximate number of tokens of a shard (default: 1,048,576)"
    add("--shard-tokens", type=positive_int, default=1 << 20, metavar="N", help=shard_tokens)
    shuffle_shards = "number of shards whose documents are shuffled together, in memory (default: 16)"
    add("--shuffle-shards", type=positive_int, default=16, metavar="N", help=shuffle_shards)
    length, seed = {"help": "sequence length of the report"}, {"help": "determines the order of the documents"}
    add_flags(parser, "sequence-length", "seed", "json", "overwrite", sequence_length=length, seed=seed)
    return parse_with_beam_flags(parser, argv)


def main(argv=None):
    arguments = vars(parse_arguments(argv))
    as_json, output = arguments.pop("json"), arguments["output"]
    with plain_errors():
        from kbert.pretraining.dataset_statistics import format_report
        from kbert.pretraining.run.prepare_records import prepare_records

        metrics = prepare_records(**arguments)
    counts = {name: count for name, count in metrics.items() if name != "data"}
    print("\n" + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()))
    print(f"Pre-training examples at sequence length {arguments['sequence_length']}:")
    print(format_report(metrics["data"]))
    if metrics["held_out_shards"]:
        options = "--size tiny --settings small-budget --steps 40000 --output runs/tiny"
        print(f"Next: python recipes/pretrain.py --records {output} {options}")
    if as_json:
        print(json.dumps(metrics))


if __name__ == "__main__":
    run_program(main, resumes=True)
