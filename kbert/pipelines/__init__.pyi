from .pipeline import Pipeline as Pipeline
from .registry import register_task as register_task
from .settings import ModelSettings as ModelSettings
