"""Functions on tensors → a SavedModel that stock TF Serving runs."""

import keras


def write_saved_model(directory, endpoints, verbose=False):
    """Writes a SavedModel whose variables are those the endpoints use, each stored once.

    Keras' own ``model.export`` tracks the model as well, which stores every weight a second time (keras issue 23553);
    endpoints alone suffice as long as there are no lookup tables, and kbert has none.

    Args:
        directory: where to; must not exist, or be empty.
        endpoints: dict of name → (function, input signature); the first is ``serving_default`` as well.
        verbose: whether Keras prints the endpoints.

    Example::

        spec = {"text": tf.TensorSpec([None], tf.string, name="text")}
        write_saved_model("exported", {"serve": (pipeline, [spec])})
    """
    archive = keras.export.ExportArchive()
    for name, (function, signature) in endpoints.items():
        archive.add_endpoint(name=name, fn=function, input_signature=signature)
    archive.write_out(str(directory), verbose=verbose)
