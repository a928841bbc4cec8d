from .analysis.report import Inspection as Inspection
from .board.tensor_board import TensorBoard as TensorBoard
from .examples.dev_examples import DevExamples as DevExamples
from .examples.masked_examples import MaskedExamples as MaskedExamples
from .inspect_model import inspect as inspect
from .view import View as View
