"""Make the training batches of a pre-training on this machine, for a trainer on another.

    python recipes/serve_data.py --port 5050                                    # on this machine
    python recipes/pretrain.py --records RECORDS --data-service HOST:5050 …     # on the training machine

This is for a GPU machine whose CPU is too slow to draw pairs and masks. Both machines must see the records under the
same path. The batches are those that the training machine would make itself, in the same order, even after a restart of
either machine. Only the ports N and N + 1 of --port N are used. A training uses one service; a service can serve
several trainings.
"""

from kbert.command_line import make_parser, plain_errors, positive_int, run_program


def parse_arguments(argv):
    parser = make_parser(__doc__)
    port = "port of the dispatcher; its worker uses the next one (default: 5050)"
    parser.add_argument("--port", type=positive_int, default=5050, metavar="N", help=port)
    host = "this machine's name, under which the training machine can reach it (default: its host name)"
    parser.add_argument("--host", metavar="NAME", help=host)
    return parser.parse_args(argv)


def main(argv=None):
    arguments = parse_arguments(argv)
    with plain_errors():
        from kbert.pretraining.data_service import DataService

        service = DataService(arguments.port, arguments.host)
    print(f"Serving batches: give pretrain.py --data-service {service.address}", flush=True)
    service.join()


if __name__ == "__main__":
    run_program(main)
