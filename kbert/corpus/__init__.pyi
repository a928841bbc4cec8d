from .corpus_files import find_files as find_files
from .documents import DocumentList as DocumentList
from .documents import detect_format as detect_format
from .documents import read_documents as read_documents
from .records import Records as Records
from .write_records import write_records as write_records
from .write_records_with_beam import write_records_with_beam as write_records_with_beam
