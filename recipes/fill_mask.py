"""Ask a masked language model what it would write in the place of each [MASK].

    python recipes/fill_mask.py "Paris is the [MASK] of France." --model bert-base-uncased
    python recipes/fill_mask.py "[MASK] is red." "It was a very [MASK] [MASK]." --model runs/tiny --top-k 3

--model: a kbert directory, the output of pretrain.py, or any checkpoint with a masked-LM head that kbert loads (Hugging
Face, Google, KerasHub). Each line printed is a token, its probability, and the text with the token in place.
--json: one JSON object a text in place of that.
"""

import argparse
import json

from flags import add_flags, command, plain_errors, positive_int

MASK = "[MASK]"


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", metavar="TEXT", nargs="+", help=f"a text with {MASK} in it")
    parser.add_argument("--model", metavar="PATH", required=True, help="the model to ask")
    parser.add_argument(
        "--top-k", metavar="N", type=positive_int, help=f"tokens to propose for each {MASK} (default: 5)"
    )
    parser.add_argument("--sequence-length", metavar="N", type=positive_int,
                        help="tokens of a text; longer ones are truncated (default: the model's)")  # fmt: skip
    add_flags(parser, "json", json={"help": "print one JSON object a text"})
    args = parser.parse_args(argv)
    without = [text for text in args.texts if MASK not in text]
    if without:
        parser.error(f"no {MASK} in {without[0]!r}")
    return args


def load(args):
    """The pipeline of the model."""
    import kbert

    model = kbert.load_pretrained(args.model)
    if model.task not in ("masked_lm", "pretraining"):
        raise ValueError(f"{args.model}: expected a model with a masked-LM head. Received: a {model.task} model")
    masks = max(text.count(MASK) for text in args.texts)
    return kbert.build_pipeline(model, sequence_length=args.sequence_length, max_masks=masks, top_k=args.top_k)


def fill(text, mask, token):
    """The text with a token in the place of its `mask`-th [MASK]; a piece that continues a word is joined to it."""
    before, after = MASK.join(text.split(MASK)[: mask + 1]), MASK.join(text.split(MASK)[mask + 1 :])
    return before.rstrip() + token[2:] + after if token.startswith("##") else before + token + after


def answers_of(pipeline, texts):
    """For each text and each of its masks the tokens with their probabilities, best first."""
    answers = pipeline.predict(texts, verbose=0)
    for text, tokens, probabilities, count in zip(
        texts, answers["tokens"], answers["probabilities"], answers["count"], strict=True
    ):
        masks = [
            [
                {"token": token, "probability": float(probability), "text": fill(text, mask, token)}
                for token, probability in zip(tokens[mask], probabilities[mask], strict=True)
            ]
            for mask in range(count)
        ]
        yield {"text": text, "masks": masks}


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        pipeline = load(args)
        for answer in answers_of(pipeline, args.texts):
            if args.json:
                print(json.dumps(answer, ensure_ascii=False))
                continue
            for mask in answer["masks"]:
                print(answer["text"])
                for proposal in mask:
                    print(f"  {proposal['probability']:.4f}  {proposal['token']:<16}  {proposal['text']}")


if __name__ == "__main__":
    command(main)
