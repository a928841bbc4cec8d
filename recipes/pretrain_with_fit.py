"""Continue the pre-training of a masked language model on your own texts, with Keras' compile and fit.

    python recipes/pretrain_with_fit.py --texts reviews.txt --model saved_models/kbert-tiny --output runs/reviews

One text a line; a text longer than a row becomes windows. Masks are made inside the pipeline, new ones in each epoch.
"""

import argparse
import pathlib

from kbert.command_line import plain_errors, run_program


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--sequence-length", type=int, default=128, help="tokens of a row, at most the model's")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args(argv)

    with plain_errors():
        import kbert
        from kbert.checks import check_directory

        check_directory(args.output, "--output")  # before the work

        # The data: strings, of which some are held out.
        texts = [line.strip() for line in args.texts.read_text("utf-8").splitlines() if line.strip()]
        held_out = max(1, len(texts) // 20)
        if len(texts) < 2:
            raise ValueError(f"{args.texts}: expected at least two texts, a line each. Received: {len(texts)}")

        # The model, with the preprocessing that masks its texts.
        model = kbert.load_pretrained(args.model, task="masked_lm")
        pipeline = kbert.build_pipeline(model, sequence_length=args.sequence_length, masking={"seed": 1})

        pipeline.compile(kbert.AdamW(1e-4))
        history = pipeline.fit(
            texts[held_out:],
            validation_data=(texts[:held_out],),
            epochs=args.epochs,
            batch_size=args.batch_size,
            verbose=2,
        )
        kbert.save_pretrained(pipeline, args.output)
        return history.history


if __name__ == "__main__":
    run_program(main)
