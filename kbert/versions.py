"""Versions of kbert and of the packages on which its numbers depend."""

import importlib
import importlib.metadata
import sys

PACKAGES = ("keras", "tensorflow", "tensorflow-text")


def versions(packages: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """kbert and those of the packages that are installed, each with its version."""
    installed = {"kbert": importlib.import_module("kbert").__version__}
    for package in packages:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # TensorFlow is also distributed as tensorflow-tpu, -cpu, ...
            if package in sys.modules:
                installed[package] = sys.modules[package].__version__
    return installed
