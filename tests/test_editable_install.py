"""An editable install is found from the folder above the checkout too, whose folder has the package's name."""

import subprocess
import sys

from helpers.paths import ROOT


def test_the_checkout_does_not_hide_the_package(tmp_path):
    """setuptools' finder comes after sys.path, where a folder `kbert` without __init__.py is a namespace package."""
    settings = (ROOT / "pyproject.toml").read_text()
    section = settings[settings.index("[tool.setuptools]") : settings.index("[tool.setuptools.package-data]")]
    checkout = tmp_path / "kbert"
    (checkout / "kbert").mkdir(parents=True)
    (checkout / "kbert" / "__init__.py").write_text("finetune = 1")
    (checkout / "pyproject.toml").write_text('[project]\nname = "kbert"\nversion = "0"\n' + section)
    code = "import setuptools.build_meta as b; print(b.build_editable('out'))"
    wheel = subprocess.run([sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, check=True)
    name = wheel.stdout.split()[-1]
    target = tmp_path / "site"
    unpack = "import site, sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])"
    subprocess.run([sys.executable, "-c", unpack, checkout / "out" / name, target], check=True)
    code = f"import site; site.addsitedir({str(target)!r}); import kbert; kbert.finetune"
    subprocess.run([sys.executable, "-ES", "-c", code], cwd=tmp_path, check=True)
