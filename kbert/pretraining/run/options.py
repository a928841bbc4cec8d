"""Groups of options of a pre-training."""

import dataclasses
import pathlib
from typing import Literal

from kbert.aliases import PathLike
from kbert.options import Count, Fraction, Machine, NonzeroFraction, Options, Positive

PRESETS = pathlib.Path(__file__).with_name("presets")  # files as --config takes them
RANDOM_NEXT_RATE = 0.5
SEQUENCE_LENGTH = 128
# A part of a run: sequence length, fraction of the steps, and if they differ batch size and maximum number of masks.
PhasePlan = (
    tuple[Count, NonzeroFraction] | tuple[Count, NonzeroFraction, Count] | tuple[Count, NonzeroFraction, Count, Count]
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Masking(Options):
    """What becomes of the tokens that are predicted.

    Args:
        mask_token_rate, keep_rate, random_token_rate: the fractions that become [MASK], stay unchanged and become
            random tokens; they add up to 1 (table 8 of the paper).
        names: path of a file with a name on each line: names are masked as a whole (`kbert.pretraining.known_names`).
        max_predictions: the maximum number of masks in a sequence. Defaults to 20 at length 128 and 80 at 512, and more
            at another `mask_rate`.
        dupe_factor: the number of epochs after which the same pairs and masks are repeated, 10 in Google's code. By
            default they never are.
    """

    mask_token_rate: Fraction = 0.8
    keep_rate: Fraction = 0.1
    random_token_rate: Fraction = 0.1
    names: PathLike | None = None
    max_predictions: Count | None = None
    dupe_factor: Count | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewModel(Options):
    """The first weights of a new model. With `init` an error, unless they are of a preset: then without effect.

    Args:
        position_embedding: "learned" or "sinusoidal", as in the Transformer.
        position_initializer: initial values of learned positions, "normal" or "sinusoidal": the Transformer's.
        initializer_stddev: standard deviation of new weights, as in Google's code 0.02 for all sizes; or "scaled":
            0.02 · √(768 / H), the same at base's width and more for narrower models.
    """

    position_embedding: Literal["learned", "sinusoidal"] = "learned"
    position_initializer: Literal["normal", "sinusoidal"] = "normal"
    initializer_stddev: Positive | Literal["scaled"] = 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution(Machine):
    """How steps are executed: `kbert.options.Machine` with two more fields.

    Args:
        steps_per_execution: argument of `compile`.
        rematerialize: whether to keep only the inputs of encoder blocks for the gradient and recompute the rest: less
            memory, about a third more time. Defaults to the blocks of `init`; new blocks keep everything.
    """

    steps_per_execution: Count = 1
    rematerialize: bool | None = None
