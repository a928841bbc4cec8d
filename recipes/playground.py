"""Show what BERT is trained on, and query models, in a web page served by this machine.

    python recipes/playground.py
    python recipes/playground.py --model saved_models/kbert-tiny --model runs/tiny@2000 --model saved_models/reviews/1
    python recipes/playground.py --vocab vocab.txt --port 8080

Type a text to see its masks, its sentence pairs and its input representation as in training. With a model, the page
also shows predictions, attention, hidden states, answers and entities, for several models side by side.
--model is a kbert directory, the output of a recipe, RUN@STEP, any checkpoint that kbert loads, or a SavedModel written
by export.py, of which only the answers of its signatures are shown. The page loads nothing from other hosts, and the
program reads only these models. TensorBoard has the same page as its tab "kbert", with the models below its --logdir.
"""

from kbert.command_line import existing_file, make_parser, plain_errors, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    model = "a model to query, by its path or name; can be repeated"
    parser.add_argument("--model", metavar="SOURCE", action="append", default=[], help=model)
    vocabulary = "a vocab.txt for the views that need no model (default: one learned from Python's documentation)"
    parser.add_argument("--vocab", metavar="FILE", type=existing_file, help=vocabulary)
    parser.add_argument("--port", metavar="N", type=int, default=6007, help="the port; 0: any free one (default: 6007)")
    host = "the address to serve; whoever can reach it can query the models (default: 127.0.0.1, only this machine)"
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
    run_program(main)
