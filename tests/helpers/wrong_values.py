"""One form for wrong values: a call, and a row for each, with what its error says."""

import re


def wrong_values(call, *rows, error=ValueError, owner=""):
    """Every row is an error of `call`, which takes the wrong value by its keyword.

    Args:
        rows: (argument, wrong value, what it must be), or (arguments as a dict, message). The first stands for the
            message "`argument` must be …". Messages are regular expressions that are searched for.
        error: The class of the errors, or several.
        owner: What stands before each message, such as "finetune: ".
    """

    def calls():
        for *wrong, expected in rows:
            if len(wrong) == 2:
                yield {wrong[0]: wrong[1]}, f"`{wrong[0]}` must be {expected}"
            else:
                yield wrong[0], expected

    _check(lambda arguments: call(**arguments), calls(), error, owner)


def wrong_inputs(call, *rows, error=ValueError, owner=""):
    """As `wrong_values`, with rows (wrong value, message) of a call that takes the value alone."""
    _check(call, rows, error, owner)


def _check(call, rows, error, owner):
    failures, count = [], 0
    for wrong, message in rows:
        count += 1
        try:
            call(wrong)
        except error as raised:
            if not re.search(owner + message, str(raised)):
                failures.append(f"{wrong!r}: expected {owner + message!r}. Received: {raised}")
        except BaseException as raised:
            raised.add_note(f"of the wrong value {wrong!r}")
            raise
        else:
            failures.append(f"{wrong!r}: no error")
    assert count and not failures, "\n".join(failures)
