"""Answer every line of a file on many processes or machines: Apache Beam's RunInference around an exported model.

    python recipes/predict_with_beam.py --export saved_models/reviews --input reviews.jsonl --output answers \\
        --runner FnApiRunner --direct_num_workers=8 --direct_running_mode=multi_processing

The input has a JSON object per line, with the inputs of the model as keys. The answers are added to each object and
written to ``answers-00000-of-00001`` …, in any order: give each object an ``id``. All other flags are Beam's.
"""

import argparse
import json

import apache_beam as beam
from apache_beam.ml.inference.base import ModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions

from kbert.serving import ExportedPipeline


class ExportHandler(ModelHandler[dict, dict, ExportedPipeline]):
    """Loads the export once in each worker process; workers must see it under the same path."""

    def __init__(self, export, batch_size):
        super().__init__(max_batch_size=batch_size)
        self.export = export

    def load_model(self):
        return ExportedPipeline(self.export)

    def run_inference(self, batch, model, inference_args=None):
        columns = {name: [row[name] for row in batch] for name in model.input_names}
        answers = model.answers.to_dicts(model.predict_on_batch(columns))
        return [{**row, **answer} for row, answer in zip(batch, answers, strict=True)]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", required=True, help="what kbert export wrote")
    parser.add_argument("--input", required=True, help="a .jsonl file, or a pattern of several")
    parser.add_argument("--output", required=True, help="prefix of the files of answers")
    parser.add_argument("--batch-size", type=int, default=32, help="rows per forward pass (default: 32)")
    options, beam_flags = parser.parse_known_args(argv)

    with beam.Pipeline(options=PipelineOptions(beam_flags)) as pipeline:
        (
            pipeline
            | "read" >> beam.io.ReadFromText(options.input)
            | "parse" >> beam.Map(json.loads)
            | "answer" >> RunInference(ExportHandler(options.export, options.batch_size))
            | "to JSON" >> beam.Map(json.dumps, ensure_ascii=False)
            | "write" >> beam.io.WriteToText(options.output)
        )


if __name__ == "__main__":
    main()
