"""convert_checkpoint.py, fill_mask.py, embed_sentences.py."""

import json

import numpy as np
import pytest
from helpers.run_recipe import read_json, run_kbert
from helpers.stored_models import assert_same_weights, load, make_model, save
from helpers.tiny_bert import TEXTS, tiny_tokenizer

import kbert

pytestmark = pytest.mark.usefixtures("eagerly")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A directory with models in several formats."""
    path = tmp_path_factory.mktemp("models")
    save(make_model("pretraining"), path / "google", "google")
    save(make_model("span with pooler"), path / "span", "google")
    save(make_model("encoder"), path / "encoder", "huggingface")
    return path


def convert(source, format, output, *more):
    run_kbert("convert", "--source", source, "--format", format, "--output", output, *more)


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_conversion(models, format, tmp_path, capsys):
    convert(models / "google", format, tmp_path / "out", "--report", tmp_path / "reports/it.json")
    printed = capsys.readouterr().out
    assert f"a pretraining model in the format {format}" in printed
    assert "encoder_block_*/attention/query/kernel" in printed
    assert_same_weights(load(tmp_path / "out"), load(models / "google"))
    report = read_json(tmp_path / "reports/it.json")
    read, written = report["read"], report["written"]
    assert len(read["rows"]) == len(written["rows"]) == 46
    assert {row["status"] for row in read["rows"]} == {"loaded"}


def test_weights_of_half_the_size(models, tmp_path, capsys):
    convert(models / "encoder", "huggingface", tmp_path / "half", "--storage-dtype", "bfloat16")
    assert read_json(tmp_path / "half/config.json")["kbert"]["storage_dtype"] == "bfloat16"
    with pytest.raises(SystemExit, match='^error: .*only format="huggingface" takes a `storage_dtype`'):
        convert(models / "encoder", "google", tmp_path / "out", "--storage-dtype", "bfloat16")


def test_what_cannot_be_converted_is_one_line(models, tmp_path):
    for source, format, more, message in [
        (models / "encoder", "kerashub", [], "cannot hold activation"),
        (models / "google", "huggingface", ["--task", "classification"], "a conversion adds none"),
    ]:
        if format == "kerashub":
            save(make_model("encoder", activation="relu"), tmp_path / "relu", "huggingface")
            source = tmp_path / "relu"
        with pytest.raises(SystemExit, match=f"^error: .*{message}"):
            convert(source, format, tmp_path / "out", *more)
        assert not (tmp_path / "out").exists()
    with pytest.raises(SystemExit, match="^error: .*nowhere"):
        convert(tmp_path / "nowhere", "huggingface", tmp_path / "out")


def test_another_task_and_case(models, tmp_path):
    convert(models / "google", "huggingface", tmp_path / "out", "--task", "encoder", "--lowercase")
    assert load(tmp_path / "out").task == "encoder" and load(tmp_path / "out").pretrained.tokenizer.lowercase
    with pytest.raises(SystemExit, match="already holds .*config.json"):
        convert(models / "google", "huggingface", tmp_path / "out")
    with pytest.warns(UserWarning, match="uncased one"):
        convert(models / "google", "huggingface", tmp_path / "out", "--overwrite", "--no-lowercase")
        assert load(tmp_path / "out").pretrained.tokenizer.lowercase is False


def test_filling_masks(models, capsys):
    texts = ["The [MASK] is good.", "[MASK] is very [MASK]!"]
    run_kbert("fill-mask", *texts, "--source", models / "google", "--top-k", 2)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line in texts for line in lines) == 3 and sum(line.startswith("  0.") for line in lines) == 6
    run_kbert("fill-mask", *texts, "--source", models / "google", "--json")
    first, second = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [len(answer["masks"]) for answer in (first, second)] == [1, 2]
    wanted = kbert.build_pipeline(load(models / "google")).predict(texts, verbose=0)
    best = first["masks"][0][0]
    assert best["token"] == wanted["tokens"][0, 0, 0]
    np.testing.assert_allclose(best["probability"], wanted["probabilities"][0, 0, 0], rtol=1e-5)
    [answer] = kbert.fill_mask(load(models / "google"), texts[0], top_k=2)  # of one text, and a loaded model
    assert [one["text"] for one in answer["masks"][0]] == [one["text"] for one in first["masks"][0][:2]]


def test_the_text_with_the_token_in_place():
    from kbert.tasks.pretraining import filled as fill

    assert fill("[MASK] is [MASK].", 0, "paris") == "paris is [MASK]."
    assert fill("[MASK] is [MASK].", 1, "big") == "[MASK] is big."
    assert fill("The film [MASK] good.", 0, "##s") == "The films good."


def test_fill_mask_needs_a_mask_and_a_head(models):
    with pytest.raises(SystemExit):
        run_kbert("fill-mask", "no mask", "--source", models / "google")
    with pytest.raises(SystemExit, match="expected a model with a masked-LM head"):
        run_kbert("fill-mask", "a [MASK]", "--source", models / "encoder")


def test_comparing_sentences(models, capsys):
    run_kbert("embed", "The film is good.", "the film IS good.", "never", "--source", models / "encoder")
    lines = [line for line in capsys.readouterr().out.splitlines() if "  |  " in line]
    assert len(lines) == 3 and lines[0].split()[0] == "1.000" and float(lines[1].split()[0]) < 0.999


def test_embeddings_of_a_file(models, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(text for text in TEXTS if text) + "\n")
    arguments = ["--input", tmp_path / "texts.txt", "--source", models / "encoder", "--output", tmp_path / "out"]
    run_kbert("embed", *arguments, "--pooling", "cls", "--normalize", "--sequence-length", 12)
    embeddings = np.load(tmp_path / "out/embeddings.npy")
    assert embeddings.shape == (3, 12) and embeddings.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1.0, rtol=1e-5)
    assert read_json(tmp_path / "out/metrics.json")["sentences"] == 3
    assert read_json(tmp_path / "out/settings.json")["pooling"] == "cls"
    model = load(models / "encoder")
    pipeline = kbert.build_pipeline(model, sequence_length=12, pair=False, pooling="cls", normalize=True)
    np.testing.assert_allclose(embeddings, pipeline.predict([t for t in TEXTS if t], verbose=0)["embedding"], atol=1e-6)


def test_sts_b(models, tmp_path, capsys):
    rows = [("the film is good.", "The film is good.", 5.0), ("never", "The film is bad!", 0.5), ("a", "paris", 1.0)]
    table = ["index\tsentence1\tsentence2\tscore"] + [f"{i}\t{a}\t{b}\t{s}" for i, (a, b, s) in enumerate(rows)]
    (tmp_path / "STS-B").mkdir()
    (tmp_path / "STS-B/dev.tsv").write_text("\n".join(table) + "\n")
    run_kbert("embed", "--sts-b", tmp_path, "--source", models / "encoder", "--json")
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert metrics["sentences"] == 6 and -1.0 <= metrics["spearman"] <= 1.0
    one = kbert.build_pipeline(load(models / "encoder"), tiny_tokenizer(), sequence_length=9, pair=False)
    first, second = (one.predict([row[i] for row in rows], verbose=0)["embedding"] for i in (0, 1))
    cosine = np.sum(first * second, 1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert metrics["pearson"] == pytest.approx(np.corrcoef(cosine, [row[2] for row in rows])[0, 1], abs=1e-4)
    with pytest.raises(SystemExit, match="STS-B/dev.tsv"):
        run_kbert("embed", "--sts-b", tmp_path / "STS-B/none", "--source", models / "encoder")
