"""Multiple choice: a prompt and its choices → the best one."""

from kbert.answers.choice import ChoiceAnswers
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.pipelines.example_rows import LONG_TEXT, SENTENCE
from kbert.pipelines.task_pipeline import TaskPipeline
from kbert.pipelines.task_signature import answering
from kbert.preprocessing.choice_preprocessor import ChoicePreprocessor
from kbert.tasks.multiple_choice.readers import read_prompts


class MultipleChoicePipeline(TaskPipeline):
    """``choice``, counted from 0, and ``probabilities`` of all."""

    task = "multiple_choice"
    model_class = BertMultipleChoice
    heads = ("multiple_choice_head",)

    def parts(self, model, tokenizer, settings):
        preprocessor = ChoicePreprocessor(tokenizer, settings["sequence_length"], name="preprocessor")
        return preprocessor, ChoiceAnswers(name="answers")

    def exported_answers(self, labels, outputs):
        return ChoiceAnswers()

    def signatures(self, pipeline):
        return {"choose": answering(pipeline)}

    def example_rows(self, names):
        choices = ["walked in.", "ate the door.", "was a door.", "sang blue."]
        return [
            {"prompt": "She opened the door and", "choices": choices},
            {"prompt": LONG_TEXT, "choices": [SENTENCE, "walked in.", "sang blue.", "was a door."]},
        ]

    def read_columns(self, path, columns, *, format="table", choice_columns=("choices",)):
        """Prompts with their lists of choices, from a table or a published format."""
        prompts, choices = read_prompts(path, format, columns["prompt"], list(choice_columns))
        return {columns["prompt"]: prompts, columns["choices"]: choices}


PIPELINE = MultipleChoicePipeline()
