"""A callback with a state, as a user writes it."""

import keras


class Counting(keras.callbacks.Callback):
    """Counts the ends of epochs that it sees."""

    seen = 0

    def on_epoch_end(self, epoch, logs=None):
        self.seen += 1

    def get_state(self):
        return {"seen": self.seen}

    def set_state(self, state):
        self.seen = state["seen"]
