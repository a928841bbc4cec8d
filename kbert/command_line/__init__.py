"""What programs such as the recipes share: flags and their types, one-line errors, and the records of a run."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "add_example_flags": "flags",
        "add_finetuning_flags": "finetuning",
        "add_flags": "flags",
        "add_trained_flags": "task_flags",
        "check_output_file": "output_file",
        "columns_of": "task_flags",
        "existing_directory": "argument_types",
        "existing_file": "argument_types",
        "finetuning_options": "finetuning",
        "given": "flags",
        "inputs_of": "run_arguments",
        "make_parser": "flags",
        "model_source": "argument_types",
        "named_column": "argument_types",
        "parse_with_beam_flags": "flags",
        "plain_errors": "program",
        "positive_float": "argument_types",
        "positive_int": "argument_types",
        "rate": "argument_types",
        "rates": "argument_types",
        "read_as_trained": "task_flags",
        "read_train_and_dev": "finetuning",
        "report_finetuning": "finetuning",
        "run_finetuning": "finetuning",
        "run_program": "program",
        "settings_of": "run_arguments",
        "stored_options": "flags",
        "task_options": "task_flags",
    },
)
