from kbert.serving.audit import AuditReport as AuditReport
from kbert.serving.client import ServingClient as ServingClient
from kbert.serving.exported_pipeline import ExportedPipeline as ExportedPipeline
from kbert.serving.exported_pipeline import trained_options as trained_options
from kbert.serving.limits import ServingLimits as ServingLimits
from kbert.serving.rest_transport import ServingError as ServingError
from kbert.serving.saved_model_file import Signature as Signature
from kbert.serving.signatures import signatures as signatures
