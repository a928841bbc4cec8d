"""Make the training batches of a pre-training on this machine, for a trainer on another.

    python recipes/serve_data.py --port 5050                               # here
    python recipes/pretrain.py --records RECORDS --data-service HERE:5050 …    # there

For a GPU machine whose processor is too slow to draw pairs and masks. Both machines must see the records under the same
path. The batches are those that the trainer would make itself, in the same order, also after a restart of either; only
this machine's ports PORT and PORT + 1 are used. A trainer has one service; a service may have several trainers.
"""

import argparse

from flags import command, plain_errors, positive_int


def parse_arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    port = "of the dispatcher; its worker has the next one (default: 5050)"
    parser.add_argument("--port", type=positive_int, default=5050, metavar="N", help=port)
    host = "this machine, as the trainer reaches it (default: what the system calls it)"
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
    command(main)
