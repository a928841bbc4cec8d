from .grid import finetune_glue as finetune_glue
from .grid import finetune_grid as finetune_grid
from .predict_file import predict_file as predict_file
