"""What an installed wheel must be able to do without the checkout: import, tokenise, build, predict, serve, export."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
start = time.monotonic()
import kbert  # noqa: E402

seconds = time.monotonic() - start
package = pathlib.Path(kbert.__file__).parent
assert package.is_relative_to(sys.prefix), f"kbert comes from {package}, not from {sys.prefix}"
assert not {"tensorflow", "keras"} & set(sys.modules), "importing kbert imports what it does not need"
for name in kbert.__all__:
    getattr(kbert, name)

import tensorflow as tf  # noqa: E402

from kbert.inspection.playground.answers import ask  # noqa: E402
from kbert.inspection.playground.models import named_models  # noqa: E402

words = ["a", "charming", "mess", "journey", "##s", "."]
tokenizer = kbert.BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
assert tokenizer("Journeys.").numpy().tolist() == [8, 9, 10]
config = kbert.BertConfig(vocabulary_size=11, num_layers=1, hidden_dim=12, num_heads=3, intermediate_dim=20)
model = kbert.BertClassifier(config, num_labels=2)
pipeline = kbert.build_pipeline(model, tokenizer, labels=["bad", "good"], sequence_length=16)
expected = pipeline.predict(["A charming journey.", "a mess"], verbose=0)["label"].tolist()
with tempfile.TemporaryDirectory() as directory:
    kbert.save_pretrained(pipeline, f"{directory}/saved")
    loaded = kbert.build_pipeline(kbert.load_pretrained(f"{directory}/saved"))
    assert loaded.predict(["A charming journey.", "a mess"], verbose=0)["label"].tolist() == expected
    (shown,) = named_models([f"{directory}/saved"]).values()
    assert ask(shown.pipeline, ["A charming journey."])["label"] == expected[0]
    assert kbert.pretraining.preset("paper")["batch_size"] == 256  # a file of the package
    for style in ("playground/style.css", "analysis/report.css"):
        assert (package / "inspection" / style).is_file(), f"the wheel lacks {style}"
    exported = kbert.export(loaded, f"{directory}/exported")
    kbert.audit(exported).require_clean()
    serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
    labels = serve(text=tf.constant(["A charming journey.", "a mess"]))["label"].numpy().tolist()
assert [label.decode() for label in labels] == expected
with tempfile.TemporaryDirectory() as directory:  # the command: a fine-tuning, a prediction, an export
    kbert.save_pretrained(kbert.BertPretrainer(config), f"{directory}/tiny", tokenizer=tokenizer)
    rows = [("a charming journey .", "good"), ("a mess .", "bad")] * 4
    table = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
    pathlib.Path(directory, "reviews.csv").write_text(table)
    for command in (
        "--help",
        "finetune classification --source tiny --train reviews.csv --dev 0.25 --sequence-length 16 --steps 2 "
        "--output run",
        "predict --source run --input reviews.csv --output answers.csv",
        "export --source run --output exported",
    ):
        done = subprocess.run(
            [pathlib.Path(sys.executable).with_name("kbert"), *command.split()],
            cwd=directory,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"kbert {command}: {done.stdout}{done.stderr}"
    assert len(pathlib.Path(directory, "answers.csv").read_text().splitlines()) == 9
    assert pathlib.Path(directory, "exported/1/saved_model.pb").is_file()
print(f"The wheel works: kbert {kbert.__version__} from {package}, imported in {seconds:.2f} s")
