"""The peers of a model benchmark, each in the setting in which it is fastest."""

import contextlib

from benchmarks.race import fastest_setting
from benchmarks.torch_peer import WORKS, TorchPeer, torch_config, torch_settings


@contextlib.contextmanager
def fastest_peers(work, settings, config, hub_name, hub_runners, torch_runner):
    """Context of ({name: runner}, {name: setting}): keras-hub and torch, each in its fastest setting.

    Args:
        work: "train" or "encode".
        settings: `BenchmarkSettings`; without `peers` there are none.
        hub_name: str, the class of keras-hub.
        hub_runners: function without arguments → {setting: runner (`benchmarks.race`)}.
        torch_runner: function of a `TorchPeer` → runner.
    """
    runners, chosen, processes = {}, {}, []
    if not settings.peers:
        yield runners, chosen
        return
    sizes = {name: getattr(settings, name) for name in ("batch_size", "sequence_length", "max_predictions")}
    try:
        hub = hub_runners()
        chosen[hub_name] = fastest_setting(hub_name, hub, settings.seconds)
        runners[hub_name] = hub[chosen[hub_name]]
        ways = torch_settings(settings.precision)
        for name, torch_work in WORKS[work].items() if ways else ():
            torch = {way: TorchPeer(torch_work, way, config=torch_config(config), **sizes) for way in ways}
            processes += torch.values()
            chosen[name] = fastest_setting(
                name, {way: torch_runner(peer) for way, peer in torch.items()}, settings.seconds
            )
            runners[name] = torch_runner(torch[chosen[name]])
            for way, peer in torch.items():
                if way != chosen[name]:
                    peer.close()
        yield runners, chosen
    finally:
        for process in processes:
            process.close()


def hub_backbone(config, dtype=None):
    """The encoder of keras-hub for a `BertConfig`."""
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocabulary_size,
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        hidden_dim=config.hidden_dim,
        intermediate_dim=config.intermediate_dim,
        dtype=dtype,
    )
