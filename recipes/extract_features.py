"""Write what a frozen encoder says of every token or word of a text: fixed features for other programs.

    python recipes/extract_features.py --model runs/tiny --input texts.txt --output features.jsonl --layers -1 -2 -3 -4
    python recipes/extract_features.py --model runs/tiny --input texts.txt --output features.npz --align words

--input: a file with a text a line. Texts of any length are read in overlapping windows; a token's features are those of
the window in which it has most context. --align words: a word has the features of its first token. --layers: hidden
states, 0 the embeddings, -1 the last layer.
--output .jsonl: as the original's extract_features.py, a line for each text, {"linex_index": 0, "features": [{"token":
"[CLS]", "layers": [{"index": -1, "values": [...]}, ...]}, ...]}. .npz: arrays features_0 (float32 [tokens, layers,
hidden]) and tokens_0 for the first text, and so on. Written as the texts are read, both appear when all is done.
"""

import argparse
import json
import sys
import time
import zipfile

import numpy as np
from flags import add_flags, command, plain_errors, source
from flags import file as existing_file


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="SOURCE", type=source, required=True, help="any model: its encoder")
    parser.add_argument("--input", metavar="FILE", type=existing_file, required=True, help="a text a line")
    parser.add_argument("--layers", metavar="N", type=int, nargs="+", default=[-1, -2, -3, -4],
                        help="hidden states (default: -1 -2 -3 -4)")  # fmt: skip
    parser.add_argument("--align", choices=("tokens", "words"), default="tokens", help="(default: tokens)")
    add_flags(parser, "output", "batch-size", "sequence-length", "precision", "overwrite",
              output={"metavar": "FILE", "help": "where the features go: .jsonl or .npz"},
              batch_size={"help": "texts and windows at a time"}, sequence_length={"help": "tokens of a window"},
              overwrite={"help": "replace --output"})  # fmt: skip
    args = parser.parse_args(argv)
    if args.output.suffix.lower() not in (".jsonl", ".npz"):
        parser.error(f"--output must end in .jsonl or .npz. Received: {args.output}")
    if args.output.exists() and not args.overwrite:
        parser.error(f"{args.output} exists; --overwrite replaces it")
    return args


def load(args):
    """The encoder with all hidden states, its preprocessor, and the layers wanted."""
    import kbert
    from kbert.preprocessing.tagging_preprocessor import TaggingPreprocessor
    from kbert.tasks.features.extract import check_layers
    from kbert.training.hardware import choose_hardware

    with choose_hardware("one", args.precision).scope():
        encoder = kbert.load_pretrained(args.model, task="encoder", outputs=("hidden_states",))
    length = min(args.sequence_length, encoder.config.max_sequence_length)
    preprocessor = TaggingPreprocessor(encoder.pretrained.tokenizer, length)
    return encoder, preprocessor, check_layers(args.layers, encoder.config.num_layers)


def read_texts(path):
    """The lines of the file; bytes that are no UTF-8 become U+FFFD."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as file:
        for line in file:
            yield line.removesuffix("\n").removesuffix("\r")


def write_jsonl(file, layers, texts):
    """The original's format; numbers with six decimals, as there. Returns how many texts."""
    count = 0
    for count, (tokens, features) in enumerate(texts, start=1):
        rows = [
            {"token": token, "layers": [
                {"index": index, "values": [round(x, 6) for x in values.tolist()]}
                for index, values in zip(layers, of_token, strict=True)
            ]}
            for token, of_token in zip(tokens, features, strict=True)
        ]  # fmt: skip
        file.write(json.dumps({"linex_index": count - 1, "features": rows}, ensure_ascii=False) + "\n")
    return count


def write_npz(file, texts):
    """A .npz whose arrays are written one by one. Returns how many texts."""
    count = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for count, (tokens, features) in enumerate(texts, start=1):
            for name, array in (("tokens", np.array(tokens, "U")), ("features", features)):
                with archive.open(f"{name}_{count - 1}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array)
    return count


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.files import atomic_file
        from kbert.tasks.features.extract import text_features

        encoder, preprocessor, layers = load(args)
        features = text_features(
            encoder, preprocessor, read_texts(args.input), layers, align=args.align, batch_size=args.batch_size
        )
        args.output.parent.mkdir(parents=True, exist_ok=True)
        is_npz, start = args.output.suffix.lower() == ".npz", time.monotonic()
        with atomic_file(args.output, "wb" if is_npz else "w") as file:
            count = write_npz(file, features) if is_npz else write_jsonl(file, args.layers, features)
            if not count:
                raise ValueError(f"{args.input} holds no text")
    print(f"{count:,} texts in {time.monotonic() - start:.1f} s", file=sys.stderr)
    print(f"Wrote {args.output}.")


if __name__ == "__main__":
    command(main)
