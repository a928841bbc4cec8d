from kbert.corpus.corpus_files import find_files as find_files
from kbert.corpus.documents import DocumentList as DocumentList
from kbert.corpus.documents import detect_format as detect_format
from kbert.corpus.documents import read_documents as read_documents
from kbert.corpus.records import Records as Records
from kbert.corpus.write_records import write_records as write_records
from kbert.corpus.write_records_with_beam import write_records_with_beam as write_records_with_beam
