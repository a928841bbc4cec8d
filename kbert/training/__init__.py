"""Hardware choice, exact resume, callbacks, arithmetic of speed."""

from kbert.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ConsoleProgress": "callbacks",
        "DevEvaluation": "dev_evaluation",
        "ExactResume": "checkpoints",
        "Hardware": "hardware",
        "Interrupted": "signals",
        "Stage": "run_state",
        "TimeBudget": "time_budget",
        "choose_hardware": "hardware",
        "fit_steps": "resume",
        "log_to_console": "console",
        "open_run": "run_directory",
    },
)
