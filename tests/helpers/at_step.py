"""What happens to a training after a step."""

import keras


class AtStep(keras.callbacks.Callback):
    """Calls a function of the model after a step."""

    def __init__(self, step, call):
        super().__init__()
        self.step, self.call = step, call

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) == self.step:
            self.call(self.model)


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(step, error=Killed):
    """A callback that raises an error after a step."""

    def kill(model):
        raise error

    return AtStep(step, kill)
