"""Ask a masked language model for the most probable tokens for each [MASK].

    python recipes/fill_mask.py "Paris is the [MASK] of France." --model bert-base-uncased
    python recipes/fill_mask.py "[MASK] is red." "It was a very [MASK] [MASK]." --model saved_models/kbert-tiny \\
        --top-k 3

--model is a kbert directory, the output of pretrain.py, or any checkpoint with a masked-LM head that kbert loads
(Hugging Face, Google, KerasHub). Each line printed is a probability, a token, and the text with the token filled in.
With --json, one JSON object per text is printed instead.
"""

import json

from kbert.command_line import add_flags, make_parser, plain_errors, run_program

MASK = "[MASK]"


def parse_arguments(argv):
    parser = make_parser(__doc__)
    parser.add_argument("texts", metavar="TEXT", nargs="+", help=f"a text with {MASK} in it")
    length = {"default": None, "help": "tokens of a text (default: the model's)"}
    model, as_json = {"help": "the model to ask"}, {"help": "print one JSON object per text"}
    names = ("model", "top-k", "sequence-length", "json")
    add_flags(parser, *names, model=model, sequence_length=length, json=as_json)
    args = parser.parse_args(argv)
    if without := [text for text in args.texts if MASK not in text]:
        parser.error(f"no {MASK} in {without[0]!r}")
    return args


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        import kbert

        options = {"top_k": args.top_k, "sequence_length": args.sequence_length}
        for answer in kbert.fill_mask(args.model, args.texts, **options):
            if args.json:
                print(json.dumps(answer, ensure_ascii=False))
                continue
            for mask in answer["masks"]:
                print(answer["text"])
                for proposal in mask:
                    print(f"  {proposal['probability']:.4f}  {proposal['token']:<16}  {proposal['text']}")


if __name__ == "__main__":
    run_program(main)
