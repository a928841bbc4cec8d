from kbert.finetuning.grid import finetune_glue as finetune_glue
from kbert.finetuning.grid import finetune_grid as finetune_grid
from kbert.finetuning.predict_file import predict_file as predict_file
from kbert.finetuning.prediction_rows import read_rows as read_rows
