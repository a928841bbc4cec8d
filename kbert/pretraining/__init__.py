"""Documents → sentence pairs → masked batches, and their statistics."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DataService": "data_service",
        "TokenMasking": "masking",
        "aligned_spans": "entities",
        "dataset_statistics": "dataset_statistics",
        "format_report": "dataset_statistics",
        "evaluate_pretraining": "run.evaluate_pretraining",
        "known_names": "entities",
        "prepare_records": "run.prepare",
        "pretraining_dataset": "dataset",
        "sentence_pairs": "pairs",
        "token_counts": "dataset_statistics",
        "unigram_baseline": "dataset_statistics",
        "write_batches": "run.prepare",
        "write_tfrecords": "tfrecords",
    },
)
