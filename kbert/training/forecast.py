"""How many steps, tokens and epochs fit into the time of a run."""

import logging
import time

import keras

from kbert.training.training_state import updates_done

_LOGGER = logging.getLogger("kbert")
_MEASURED_STEPS = 10  # after the first


class Forecast(keras.callbacks.Callback):
    """Logs once, from the time of the first steps, how many steps, tokens and epochs the time of a run is enough for.

    Args:
        tokens: int, with padding, of an update.
        real_share: float, the share of tokens that are not padding.
        corpus_tokens: int, of an epoch; None: not known.
        now: function that gives the time in seconds.
    """

    def __init__(self, budget, tokens, real_share, corpus_tokens=None, now=time.monotonic):
        super().__init__()
        self.budget, self.tokens, self.real_share, self.corpus_tokens = budget, tokens, real_share, corpus_tokens
        self._now, self._first, self._logged = now, None, False

    def on_train_batch_end(self, batch, logs=None):
        if self._logged:
            return
        step = updates_done(self.model.optimizer)
        if self._first is None:
            self._first = step, self._now()
        elif (done := step - self._first[0]) >= _MEASURED_STEPS:
            self._logged = True
            seconds = (self._now() - self._first[1]) / done
            steps = step + (self.budget.seconds - self.budget.elapsed) / max(seconds, 1e-9)
            tokens = steps * self.tokens
            _LOGGER.info(
                "%.3f s a step: %s hours are enough for about %s steps, %s tokens with padding%s",
                seconds,
                f"{self.budget.seconds / 3600:.3g}",
                f"{steps:,.0f}",
                f"{tokens:,.0f}",
                "" if not self.corpus_tokens else f", {tokens * self.real_share / self.corpus_tokens:.2f} epochs",
            )
