"""Write a frozen encoder's hidden states for every token or word of a text, as features for other programs.

    python recipes/extract_features.py --model saved_models/kbert-tiny --input texts.txt --output features.jsonl \\
        --layers -1 -2 -3 -4
    python recipes/extract_features.py --model saved_models/kbert-tiny --input texts.txt --output features.npz \\
        --align words

--input is a file with one text per line. Texts of any length are read in overlapping windows; a token's features are
those of the window in which it has most context. With --align words, a word has the features of its first token.
--layers chooses hidden states: 0 the embeddings, -1 the last layer.
A .jsonl --output has a line for each text, as in the original's extract_features.py: {"linex_index": 0, "features":
[{"token": "[CLS]", "layers": [{"index": -1, "values": [...]}, ...]}, ...]}. An .npz has the arrays features_0 (float32
[tokens, layers, hidden]) and tokens_0 for the first text, and so on. The file appears when it is complete.
"""

import sys
import time

from kbert.command_line import add_flags, check_output_file, make_parser, plain_errors, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    add_flags(
        parser,
        *("model", "input", "output", "batch-size", "sequence-length", "precision", "overwrite"),
        model={"help": "a model of any task, whose encoder is used"},
        input={"help": "file with one text per line"},
        output={"metavar": "FILE", "help": "where the features go: .jsonl or .npz"},
        batch_size={"help": "texts and windows per batch"},
        sequence_length={"help": "tokens of a window"},
        overwrite={"help": "replace --output"},
    )
    add, layers = parser.add_argument, "the hidden states to write (default: -1 -2 -3 -4)"
    add("--layers", metavar="N", type=int, nargs="+", default=[-1, -2, -3, -4], help=layers)
    add("--align", choices=("tokens", "words"), default="tokens", help="what has features (default: tokens)")
    args = parser.parse_args(argv)
    check_output_file(parser, args, endings=(".jsonl", ".npz"))
    return args


def main(argv=None):
    args, start = parse_arguments(argv), time.monotonic()
    with plain_errors():
        import kbert
        from kbert.finetuning.features.extract import check_layers, text_features
        from kbert.finetuning.features.write_features import write_features
        from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
        from kbert.tasks.text_files import iterate_lines
        from kbert.training.hardware import choose_hardware

        with choose_hardware("one", args.precision).scope():
            encoder = kbert.load_pretrained(args.model, task="encoder", outputs=("hidden_states",))
        length = min(args.sequence_length, encoder.config.max_sequence_length)
        preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, length)
        layers = check_layers(args.layers, encoder.config.num_layers)
        total = sum(1 for _ in iterate_lines(args.input))
        options = {"align": args.align, "batch_size": args.batch_size, "total": total}
        features = text_features(encoder, preprocessor, iterate_lines(args.input), layers, **options)
        count = write_features(args.output, features, args.layers)
    print(f"{count:,} texts in {time.monotonic() - start:.1f} s", file=sys.stderr)
    print(f"Wrote {args.output}.")


if __name__ == "__main__":
    run_program(main)
