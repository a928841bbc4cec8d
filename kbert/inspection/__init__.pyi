from kbert.inspection.analysis.report import Inspection as Inspection
from kbert.inspection.board.tensor_board import TensorBoard as TensorBoard
from kbert.inspection.examples.dev_examples import DevExamples as DevExamples
from kbert.inspection.examples.masked_examples import MaskedExamples as MaskedExamples
from kbert.inspection.inspect_model import inspect as inspect
from kbert.inspection.view import View as View
