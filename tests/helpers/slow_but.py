"""Parameters of which the suite runs some and the nightly run all."""

import pytest


def slow_but(quick, cases):
    """The cases for `pytest.mark.parametrize`; those that are not among the quick ones are marked slow."""
    return [pytest.param(case, marks=() if case in quick else pytest.mark.slow) for case in cases]
