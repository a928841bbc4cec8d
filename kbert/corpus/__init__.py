"""Files of prose → documents of sentences → records."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "DocumentList": "documents",
        "Records": "records",
        "detect_format": "documents",
        "find_files": "corpus_files",
        "frequent_names": "names",
        "read_documents": "documents",
        "write_records": "write_records",
        "write_records_with_beam": "write_records_with_beam",
    },
)
