"""Learn a WordPiece vocabulary from text.

    python recipes/learn_vocabulary.py --corpus 'wiki/*.gz' --size 30522 --output vocab.txt
    python recipes/pretrain.py --corpus 'wiki/*.gz' --vocab vocab.txt ...

--output receives one token per line; the .json file next to it (vocab.json) has the settings of the recipe and of the
tokenizer, and statistics. Reserved tokens have BERT's ids: [PAD] 0, [unused0] to [unused98] 1 to 99, [UNK] 100,
[CLS] 101, [SEP] 102, [MASK] 103 (a vocabulary of fewer than 2,000 tokens has no unused ones). The same text gives the
same vocabulary, whatever the order of its files. A vocabulary learned with --cased needs --cased in the recipes that
use it.
"""

import itertools
import json
import os
import time

from kbert.command_line import add_flags, make_parser, plain_errors, positive_int, run_program, settings_of


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add = parser.add_argument
    add_flags(parser, "corpus", corpus={"required": True})
    size = "number of tokens, including the reserved ones (default: 30522, as in BERT)"
    add("--size", type=positive_int, default=30522, metavar="N", help=size)
    add_flags(parser, "output", output={"metavar": "FILE", "help": "the vocabulary to write, such as vocab.txt"})
    add("--cased", action="store_true", help="do not lower-case or strip accents")
    characters = """number of different characters (default: those that make up 99.95 %% of the text, but at least
        1,000 or a tenth of --size, whichever is less)"""
    add("--characters", type=positive_int, metavar="N", help=characters)
    add_flags(parser, "format", "language", "json", "overwrite", overwrite={"help": "replace the file"})
    return parser.parse_args(argv)


def main(argv=None):
    args, started = parse_arguments(argv), time.monotonic()
    with plain_errors():
        check_output(args.output, args.overwrite)
        from kbert.corpus.documents import read_documents
        from kbert.files import write_json
        from kbert.text.learn_vocabulary import learn_vocabulary
        from kbert.text.tokenizer import BertTokenizer
        from kbert.text.vocabulary import write_vocabulary

        lines = itertools.chain.from_iterable(read_documents(args.corpus, args.format, args.language))
        tokens = learn_vocabulary(lines, args.size, lowercase=not args.cased, max_characters=args.characters)
        write_vocabulary(args.output, tokens)
    metrics = {"tokens": len(tokens), "asked_for": args.size, "seconds": round(time.monotonic() - started, 1)}
    tokenizer = BertTokenizer(tokens, lowercase=not args.cased).settings()
    write_json(args.output.with_suffix(".json"), {"settings": settings_of(args), "tokenizer": tokenizer, **metrics})
    if len(tokens) < args.size:
        print(f"The corpus yields only {len(tokens):,} tokens; more text is needed for {args.size:,}.")
    print(f"{args.output}: {len(tokens):,} tokens, {'cased' if args.cased else 'uncased'}")
    corpus, cased = " ".join(map(repr, args.corpus)), " --cased" if args.cased else ""
    print(
        f"Next: python recipes/pretrain.py --corpus {corpus} --vocab {args.output}{cased} --settings small-budget "
        "--steps 40000 --output …"
    )
    if args.json:
        print(json.dumps(metrics))


def check_output(path, overwrite):
    """Refuses, before any work, an output that could not be written at the end."""
    if path.is_dir() or path.suffix == ".json":
        raise ValueError(
            f"--output is the vocabulary file, such as vocab.txt; a .json file is written next to it. Received: {path}"
            + (", which is a directory" if path.is_dir() else "")
        )
    for file in (path, path.with_suffix(".json")):
        if file.exists() and not overwrite:
            raise ValueError(f"{file} already exists. Use --overwrite to replace it, or choose another --output.")
    parent = next(parent for parent in path.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ValueError(f"--output cannot be written: {parent} is not a directory in which you may write.")


if __name__ == "__main__":
    run_program(main)
