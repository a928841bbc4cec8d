"""Find names of several words in a cased text, which pretrain.py --names masks as a whole.

    python recipes/learn_names.py --corpus 'wiki/*.gz' --output names.txt
    python recipes/pretrain.py --records records --names names.txt --settings small-budget \\
        --steps 40000 --output runs/names

A name consists of two or more consecutive words that are capitalised within a sentence, possibly with words such as
"of" between them, and occurs at least --min-count times. For an uncased model, give the cased text from which its
records were made. --output receives one name per line, the most frequent first.
"""

from kbert.command_line import add_flags, check_output_file, make_parser, plain_errors, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    output = {"metavar": "FILE", "help": "the file to write, such as names.txt"}
    replace = {"help": "replace the file"}
    names = ("corpus", "format", "output", "overwrite")
    add_flags(parser, *names, corpus={"required": True}, output=output, overwrite=replace)
    add, min_count = parser.add_argument, "minimum number of occurrences of a name (default: 5)"
    add("--min-count", type=positive_int, default=5, metavar="N", help=min_count)
    add("--max-names", type=positive_int, default=20_000, metavar="N", help="maximum number of names (default: 20000)")
    args = parser.parse_args(argv)
    check_output_file(parser, args)
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.corpus.documents import read_documents
        from kbert.corpus.names import frequent_names, write_names

        try:
            names = frequent_names(read_documents(args.corpus, args.format), args.min_count, args.max_names)
        except ValueError as error:
            raise ValueError(f"{' '.join(args.corpus)}: {error}") from None
        write_names(args.output, names)
    print(f"{args.output}: {len(names):,} names, such as {', '.join(names[:5])}")


if __name__ == "__main__":
    run_program(main)
