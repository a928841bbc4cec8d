from kbert.pipelines.pipeline import Pipeline as Pipeline
from kbert.pipelines.registry import register_task as register_task
from kbert.pipelines.settings import ModelSettings as ModelSettings
