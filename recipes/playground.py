"""Look at what BERT is trained on, and ask models, in a page on this machine.

    python recipes/playground.py
    python recipes/playground.py --model runs/tiny --model runs/tiny@2000 --model saved_models/reviews/1
    python recipes/playground.py --vocab vocab.txt --port 8080

Type a text and see its masks, its pairs of sentences and its input representation as the training makes them; with a
model also its predictions, attention, hidden states, answers and entities, several models side by side.
--model: a kbert directory, the output of a recipe, RUN@STEP, any checkpoint that kbert loads, or a SavedModel of
export.py, which gives the answers of its signatures. The page and everything in it comes from this program, which reads
only these models. TensorBoard has the same page as its tab "kbert", with the models below its --logdir.
"""

import argparse

from flags import command, plain_errors
from flags import file as existing_file


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    model = "a model to ask, by its path or name; may be given several times"
    parser.add_argument("--model", metavar="SOURCE", action="append", default=[], help=model)
    vocabulary = "vocab.txt for what needs no model (default: learned from Python's own documentation)"
    parser.add_argument("--vocab", metavar="FILE", type=existing_file, help=vocabulary)
    parser.add_argument("--port", metavar="N", type=int, default=6007, help="0: one that is free (default: 6007)")
    host = "the address to serve; whoever can reach it can ask the models (default: 127.0.0.1, this machine alone)"
    parser.add_argument("--host", metavar="NAME", default="127.0.0.1", help=host)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse_arguments(argv)
    with plain_errors():
        from kbert.inspection.playground import PlaygroundApp, PlaygroundServer

        app = PlaygroundApp(args.model, vocabulary=args.vocab, host=args.host)
        app.api.models.check()
        server = PlaygroundServer(app, args.host, args.port)
    print(f"The playground is at {server.address} until you press Ctrl-C.", flush=True)
    server.serve()


if __name__ == "__main__":
    command(main)
