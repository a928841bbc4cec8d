from .audit import AuditReport as AuditReport
from .client import ServingClient as ServingClient
from .exported_pipeline import ExportedPipeline as ExportedPipeline
from .exported_pipeline import trained_options as trained_options
from .limits import ServingLimits as ServingLimits
from .rest_transport import ServingError as ServingError
from .saved_model_file import Signature as Signature
from .signatures import signatures as signatures
