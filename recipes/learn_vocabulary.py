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
import time

from kbert import command_line as cli


def parse_arguments(argv):
    parser = cli.make_parser(__doc__)
    add = parser.add_argument
    cli.add_flags(parser, "corpus", corpus={"required": True})
    size = "number of tokens, including the reserved ones (default: 30522, as in BERT)"
    add("--size", type=cli.positive_int, default=30522, metavar="N", help=size)
    cli.add_flags(parser, "output", output={"metavar": "FILE", "help": "the vocabulary to write, such as vocab.txt"})
    add("--cased", action="store_true", help="do not lower-case or strip accents")
    characters = """number of different characters (default: those that make up 99.95 %% of the text, but at least
        1,000 or a tenth of --size, whichever is less)"""
    add("--characters", type=cli.positive_int, metavar="N", help=characters)
    cli.add_flags(parser, "format", "language", "json", "overwrite", overwrite={"help": "replace the file"})
    args = parser.parse_args(argv)
    if args.output.suffix == ".json":
        parser.error(f"--output is the vocabulary, and a .json file is written next to it. Received: {args.output}")
    cli.check_output_file(parser, args, args.output.with_suffix(".json"))
    return args


def main(argv=None):
    args, started = parse_arguments(argv), time.monotonic()
    with cli.plain_errors():
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
    write_json(args.output.with_suffix(".json"), {"settings": cli.settings_of(args), "tokenizer": tokenizer, **metrics})
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


if __name__ == "__main__":
    cli.run_program(main)
