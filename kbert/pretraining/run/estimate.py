"""What a pre-training is going to take: steps, tokens, epochs, memory and time."""

from kbert.pretraining.run.phases import count_steps
from kbert.pretraining.run.pretraining_optimizer import compile_models
from kbert.training.dry_run import estimate_training


def describe_plan(settings, model, real_shares, corpus_tokens) -> str:
    """Lines on the size of the model and of the run, for printing.

    Args:
        real_shares: floats, for every phase the share of tokens that are not padding.
        corpus_tokens: int, tokens of an epoch; None: not known.
    """
    lines, start, tokens, real = [f"{model.count_params():,} parameters"], 0.0, 0, 0.0
    if settings.hours is not None:
        lines.append(f"{settings.hours:g} hours; the first steps will tell how many fit")
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        shape = f"{stage.batch_size:,} rows of {stage.sequence_length} tokens"
        if steps is None:
            lines.append(f"from {start:.1%} to {stage.end:.1%} of the time steps of {shape}")
        else:
            lines.append(f"{steps:,} steps of {shape}")
            tokens += (more := steps * stage.batch_size * stage.sequence_length)
            real += more * real_shares[stage.phase]
        start = stage.end
    if tokens:
        epochs = f", {real / corpus_tokens:.2f} epochs" if corpus_tokens else ""
        lines.append(f"{tokens:,} tokens with padding, about {real:,.0f} without{epochs}")
    return "\n".join(lines)


def count_epochs(settings, real_shares, corpus_tokens, done=None) -> float | None:
    """About how many epochs a run of `steps` takes; None where the clock ends it or the corpus was not counted.

    Args:
        real_shares, corpus_tokens: as `describe_plan`.
        done: int, count only the first steps, of a run that a callback stopped; None: all.
    """
    if settings.hours is not None or not corpus_tokens:
        return None
    left, tokens = settings.steps if done is None else done, 0.0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        rows = min(steps, left) * stage.batch_size
        left -= min(steps, left)
        tokens += rows * stage.sequence_length * real_shares[stage.phase]
    return tokens / corpus_tokens


def stage_steps(settings) -> list[int | None]:
    """The number of steps of every stage; None for those that the clock ends."""
    stages = settings.stages()
    if settings.hours is not None:
        return [None] * len(stages)
    return count_steps(stages, settings.steps, settings.steps_per_execution)


def estimate_pretraining(data, model, hardware) -> dict:
    """The metrics of a dry run, which compiles the model and trains it for a few steps.

    Returns:
        dict: what `data.count_sequences` found; the
        entries of `estimate_training` over all stages: sums of `steps`, `tokens` and `seconds`, the largest
        `memory_bytes`, the mean `seconds_per_step`, the others of the first stage; of several stages also `stages`, a
        list of them each. Of a run of hours, `steps` is what fits.
    """
    settings, sequences = data.settings, data.count_sequences()
    found, start = [], 0.0
    for stage, steps in zip(settings.stages(), stage_steps(settings), strict=True):
        compile_models(model, model, settings, hardware, steps_per_execution=1)
        one = estimate_training(model, data.batches(stage), 1)
        seconds = one["seconds_per_step"]
        if steps is None:
            steps = int(3600 * settings.hours * (stage.end - start) / seconds)
        tokens = steps * stage.batch_size * stage.sequence_length
        found.append(one | {"steps": steps, "tokens": tokens, "seconds": steps * seconds})
        start = stage.end
    total = {name: sum(one[name] for one in found) for name in ("steps", "tokens", "seconds")}
    total["memory_bytes"] = max(one["memory_bytes"] for one in found)
    if len(found) > 1:
        total |= {"stages": found, "seconds_per_step": total["seconds"] / max(1, total["steps"])}
    return sequences | found[0] | total
