"""Where a run writes its TensorBoard logs."""

import pathlib

from kbert.checks import check_directory


def log_directory(function: str, log_dir, output, profile=None) -> pathlib.Path | None:
    """The directory of a run's logs: `log_dir`, else ``logs`` in `output`, else None.

    `function` has these arguments, for the message of an error.
    """
    output = None if output is None else check_directory(output, f"{function}: `output`")
    if log_dir:
        return check_directory(log_dir, f"{function}: `log_dir`")
    if output is not None:
        return output / "logs"
    if profile is not None:
        raise ValueError(
            f"{function}: `profile` needs a directory for the logs, `log_dir` or `output`. "
            f"Received: profile={profile!r} and neither"
        )
    return None
