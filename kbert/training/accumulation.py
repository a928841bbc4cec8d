"""Which batches can be divided into micro-batches."""


def check_accumulation(accumulate: int, hardware, batch_sizes) -> None:
    """Raises ValueError unless each replica can divide its share of such batches into `accumulate` micro-batches."""
    if accumulate == 1:
        return
    if wrong := sorted(size for size in set(batch_sizes) if size % (accumulate * hardware.replicas)):
        replicas = f" times the {hardware.replicas} replicas" if hardware.replicas > 1 else ""
        raise ValueError(f"A batch size must be a multiple of `accumulate`, {accumulate}{replicas}. Received: {wrong}")
