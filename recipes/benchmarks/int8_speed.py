"""How fast are int8 exports, beside float32, bfloat16, ONNX Runtime, OpenVINO and torch with the same weights?

    python recipes/benchmarks/int8_speed.py all-MiniLM-L6-v2 kbert-mini-sentiment base --output int8-speed.json
    python recipes/benchmarks/int8_speed.py --table --output int8-speed.json

A request is strings and the answer one vector or label for each, tokenization included: one short text, one of 256
tokens, 32 mixed texts, and 120 texts of as many lengths, one by one. The models are directories for transformers;
`base` is a BERT-base with random weights. Each system runs in a process of its own, with one and with two threads. The
file keeps what has been measured: the same command goes on after a stop. kbert runs a batch in groups of similar
length. The peers get such groups too, of 1, 4, 8 or 16 texts, and the fastest counts. Needs transformers; onnxruntime,
openvino and nncf are measured if installed.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

SYSTEMS = (
    "kbert float32",
    "kbert bfloat16",
    "kbert int8",
    "onnxruntime float32",
    "onnxruntime int8",
    "openvino bfloat16",
    "openvino int8",
    "torch float32",
    "torch bfloat16",
)
GROUPS = (1, 4, 8, 16)  # texts that a peer runs together
LOADS = ("short", "256 tokens", "32 mixed", "120 lengths")
VOCABULARY = pathlib.Path(__file__).parents[2] / "saved_models" / "kbert-mini" / "model"  # of `base`
WORDS = "the committee met in geneva and spoke about engines that compute many numbers quickly for others".split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("int8-speed.json"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("runs/int8-speed"))
    parser.add_argument("--systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=1, help="processes of each system; their best times count")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each kind of request")
    parser.add_argument("--processor", action="store_true", help="processor time, on a machine that does other work")
    parser.add_argument("--table", action="store_true", help="only print what has been measured")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # model, system and threads of this process
    options = parser.parse_args()
    if options.one:
        clock = time.process_time if options.processor else time.perf_counter
        print(json.dumps(measure(*options.one, options.work, options.seconds, clock)))
        return
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    runs = itertools.product(range(options.rounds), options.models, options.threads, options.systems)
    for number, model, threads, system in () if options.table else runs:
        key = f"{name_of(pathlib.Path(model))} | {threads} | {system}"
        if len(results.setdefault(key, [])) > number:
            continue
        own = [__file__, "--one", model, system, str(threads), "--work", options.work, "--seconds", options.seconds]
        own += ["--processor"] * options.processor
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTEROP_THREADS": "1"}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"), str(threads))
        process = subprocess.run([sys.executable, *map(str, own)], stdout=subprocess.PIPE, env=environment, text=True)
        if process.returncode:
            print(f"{key}: failed", file=sys.stderr)
            continue
        results[key].append(json.loads(process.stdout.splitlines()[-1]))
        options.output.write_text(json.dumps(results, indent=1))
        print(key, results[key][-1], flush=True)
    print_table(results)


def print_table(results):
    print(f"| model | threads | system | {' | '.join(LOADS)} |\n|{'---|' * (3 + len(LOADS))}")
    for key, rounds in results.items():
        if rounds:
            best = [f"{min(each[load] for each in rounds):.3g}" for load in LOADS]
            print(f"| {key} | {' | '.join(best)} |")


def measure(model, system, threads, work, seconds, clock):
    """Milliseconds of each kind of request: the median of calls, for the 120 lengths the mean of their texts."""
    library, precision = system.split()
    source = prepared_source(model, work)
    if library == "kbert":
        ways = [kbert_answers(source, precision, work)]
    else:
        run = {"onnxruntime": onnx_output, "openvino": openvino_output, "torch": torch_output}[library]
        ways = [peer_answers(source, run(source, precision, int(threads), work), rows) for rows in GROUPS]
    return {
        load: min(milliseconds(ask, requests, seconds, clock) for ask in (ways if len(requests[0]) > 1 else ways[:1]))
        for load, requests in loads().items()
    }


def milliseconds(ask, requests, seconds, clock):
    for request in requests:
        ask(request)
    times, end = [], clock() + seconds
    while len(times) < max(3, len(requests)) or clock() < end:
        for request in requests:
            start = clock()
            ask(request)
            times.append(clock() - start)
    return round(1e3 * (statistics.mean(times) if len(requests) > 1 else statistics.median(times)), 3)


def name_of(source):
    return source.parent.name if source.name == "model" else source.name


def loads():
    lengths = [3, 9, 14, 5, 27, 11, 8, 40, 18, 6, 12, 110, 7, 22, 16, 33, 4, 60, 10, 13, 25, 8, 180, 15, 9, 30, 6, 20]
    lengths = [*lengths, 75, 12, 48, 10]
    return {
        "short": [["a man is playing a guitar on the street"]],
        "256 tokens": [[text(254)]],
        "32 mixed": [[text(length) for length in lengths]],
        "120 lengths": [[text(length)] for length in sorted(range(3, 243, 2), key=lambda n: n * 7919 % 241)],
    }


def text(words):
    return " ".join(WORDS[n * n % len(WORDS)] for n in range(words))


def calibration_texts():
    return [text(3 + n % 90) for n in range(128)]


def prepared_source(model, work):
    """The directory of a model in transformers' format."""
    if model != "base":
        return pathlib.Path(model)
    path = work / "base-random"
    if not (path / "config.json").exists():
        import kbert

        pipeline = kbert.build_pipeline(kbert.load_pretrained(VOCABULARY))
        size = len(pipeline.tokenizer.vocabulary)
        encoder = kbert.BertEncoder(kbert.BertConfig.from_size("base", vocabulary_size=size))
        kbert.save_pretrained(encoder, path, tokenizer=pipeline.tokenizer)
    return path


def kbert_answers(source, precision, work):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  a server links these ops

    import kbert

    directory = work / f"{name_of(source)}-kbert-{precision}"
    if not (directory / "1" / "saved_model.pb").exists():
        pipeline = kbert.build_pipeline(kbert.load_pretrained(source), sequence_length=256)
        calibration = calibration_texts() if precision == "int8" else None
        kbert.export(
            pipeline, directory, precision=precision, calibration=calibration, frozen_weights=precision == "bfloat16"
        )
    loaded = tf.saved_model.load(str(directory / "1"))
    serve = loaded.signatures["serving_default"]
    serve(text=tf.constant(["warm up"]))
    return lambda texts, loaded=loaded: {name: each.numpy() for name, each in serve(text=tf.constant(texts)).items()}


def transformers_model(source):
    """The model that returns hidden states, or a classifier's logits."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(source)
    is_classifier = "SequenceClassification" in str(config.architectures)
    kind = transformers.AutoModelForSequenceClassification if is_classifier else transformers.AutoModel
    return kind.from_pretrained(source).eval()


def peer_answers(source, run, rows):
    """A function of texts that runs `rows` texts of similar length together."""
    import numpy as np
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(source)

    def ask(texts):
        token_ids = tokenizer(texts, truncation=True, max_length=256)["input_ids"]
        order = sorted(range(len(texts)), key=lambda n: len(token_ids[n]))
        found = [None] * len(texts)
        for start in range(0, len(texts), rows):
            group = order[start : start + rows]
            inputs = batch([token_ids[n] for n in group])
            for n, answer in zip(group, answers(run(inputs), inputs["attention_mask"]), strict=True):
                found[n] = answer
        return np.stack(found)

    return ask


def batch(token_ids):
    import numpy as np

    lengths = np.array([len(row) for row in token_ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.zeros(mask.shape, "int64")  # [PAD] is 0
    padded[mask] = np.concatenate(token_ids)
    return {"input_ids": padded, "attention_mask": mask.astype("int64"), "token_type_ids": np.zeros_like(padded)}


def answers(output, mask):
    """A vector of length 1 from hidden states, probabilities from logits."""
    import numpy as np

    if output.ndim == 2:
        odds = np.exp(output - output.max(axis=-1, keepdims=True))
        return odds / odds.sum(axis=-1, keepdims=True)
    mean = (output * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return mean / np.linalg.norm(mean, axis=-1, keepdims=True)


def torch_output(source, precision, threads, work):
    import torch

    torch.set_num_threads(threads)
    model = transformers_model(source)
    model = model.to(torch.bfloat16) if precision == "bfloat16" else model

    def run(inputs):
        with torch.inference_mode():
            return model(**{name: torch.from_numpy(each) for name, each in inputs.items()})[0].float().numpy()

    return run


def onnx_file(source, work):
    import torch

    path = work / f"{name_of(source)}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = transformers_model(source)
        inputs = {name: torch.from_numpy(each) for name, each in batch([[101, 102], [101, 2023, 102]]).items()}

        class Output(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids, attention_mask, token_type_ids):
                return self.model(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]

        axes = {name: {0: "batch", 1: "length"} for name in inputs} | {"output": {0: "batch"}}
        arguments = Output(), tuple(inputs.values()), path
        names = {"input_names": list(inputs), "output_names": ["output"]}
        torch.onnx.export(*arguments, **names, dynamic_axes=axes, opset_version=17, dynamo=False)
    return path


def onnx_output(source, precision, threads, work):
    import onnxruntime

    path = onnx_file(source, work)
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        target = path.with_suffix(".int8.onnx")
        if not target.exists():
            quantize_dynamic(path, target, weight_type=QuantType.QInt8, per_channel=True)
        path = target
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}
    return lambda inputs: session.run(None, {name: each for name, each in inputs.items() if name in names})[0]


def openvino_output(source, precision, threads, work):
    import openvino

    path = onnx_file(source, work)
    core = openvino.Core()
    if precision == "int8":
        path = work / f"{name_of(source)}-openvino-int8.xml"
        if not path.exists():
            import nncf
            import transformers

            model = core.read_model(onnx_file(source, work))
            names = {each.get_any_name() for each in model.inputs}
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            rows = [batch(tokenizer([each])["input_ids"]) for each in calibration_texts()]
            rows = [{name: each for name, each in row.items() if name in names} for row in rows]
            model = nncf.quantize(
                model, nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(rows)
            )
            openvino.save_model(model, path)
    hints = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "bf16"}
    compiled = core.compile_model(path, "CPU", hints)
    names = {each.get_any_name() for each in compiled.inputs}
    return lambda inputs: compiled({name: each for name, each in inputs.items() if name in names})[0]


if __name__ == "__main__":
    main()
