"""A check of version numbers."""

from kbert.checks import check_positive

_MOST = 2**63 - 1  # int64, as TensorFlow Serving stores them


def check_version(owner: str, version) -> None:
    """Raises a ValueError that names owner and argument unless it is a positive integer that a server can hold."""
    check_positive(owner, version=version)
    if version > _MOST:
        raise ValueError(f"{owner}: `version` must be at most {_MOST}, as servers take int64. Received: {version}")
