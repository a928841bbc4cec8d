"""``python -m kbert``: the command."""

from kbert.commands import main

if __name__ == "__main__":
    main()
