"""The files around the code: valid, and they name what exists; an editable install finds the package."""

import ast
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
import tomllib

import pytest
import yaml
from helpers.paths import ROOT

YAML = [
    *(ROOT / ".github").rglob("*.yml"),
    *(ROOT / "docs/deployment").glob("*.yaml"),
    ROOT / "CITATION.cff",
    ROOT / ".pre-commit-config.yaml",
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_is_valid(path):
    assert all(isinstance(part, dict) for part in yaml.safe_load_all(path.read_text("utf-8")))


def test_the_workflow_runs_what_exists():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    files = {word for command in commands for word in re.findall(r"(?:tests|\.ci)/[\w./]+", command)}
    assert ".ci/run" in files and all((ROOT / file).exists() for file in files)


def test_compose_and_kubernetes_serve_the_ports_and_the_model():
    compose = yaml.safe_load((ROOT / "docs/deployment/docker-compose.yaml").read_text("utf-8"))["services"]["serving"]
    assert compose["ports"] == ["8500:8500", "8501:8501"]
    default = re.search(r"\$\{MODEL:-([\w-]+)\}", compose["volumes"][0])[1]
    assert (ROOT / "saved_models" / default / "1/saved_model.pb").is_file()
    documents = yaml.safe_load_all((ROOT / "docs/deployment/kubernetes.yaml").read_text("utf-8"))
    kinds = {document["kind"]: document for document in documents}
    assert kinds.keys() == {"Deployment", "ConfigMap", "Service"}
    container = kinds["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == compose["image"]
    assert [port["containerPort"] for port in container["ports"]] == [8500, 8501]


@pytest.mark.parametrize("state", ["AVAILABLE", "LOADING"])
def test_the_health_check_asks_the_model(state):
    compose = yaml.safe_load((ROOT / "docs/deployment/docker-compose.yaml").read_text("utf-8"))["services"]["serving"]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            with listener.accept()[0] as connection:
                asked.append(connection.recv(1000))
                connection.sendall(f'HTTP/1.0 200 OK\r\n\r\n{{"state": "{state}"}}\n'.encode())

        asked, thread = [], threading.Thread(target=answer)
        thread.start()
        kind, *command = compose["healthcheck"]["test"]
        command[-1] = command[-1].replace("8501", str(listener.getsockname()[1])).replace("$$", "$")
        done = subprocess.run(command, env={**os.environ, "MODEL_NAME": "reviews"})
        thread.join()
    assert kind == "CMD" and asked[0].startswith(b"GET /v1/models/reviews HTTP/1.0\r\n")
    assert (done.returncode == 0) == (state == "AVAILABLE")


def test_versions_and_types():
    import kbert

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["type"] == "software" and "preferred-citation" not in citation  # which GitHub shows instead
    assert citation["version"] == PROJECT["project"]["version"] == kbert.__version__
    assert (ROOT / "kbert/py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["kbert"]
    assert PROJECT["project"]["scripts"] == {"kbert": "kbert.commands:main"}


def test_test_files_import_nothing_optional():
    """README's test command installs `kbert[test]` alone: one such import would end the whole run."""
    extras = PROJECT["project"]["optional-dependencies"]
    names = {
        re.match(r"[\w-]+", package)[0].replace("-", "_")
        for extra in ("parity", "jax", "hub", "parquet", "beam", "playground", "browser", "docs")
        for package in extras[extra]
    } - {"kbert", "scipy"}  # scikit-learn brings SciPy
    for path in (ROOT / "tests").rglob("*.py"):
        body = ast.parse(path.read_text("utf-8")).body
        body = list(itertools.takewhile(lambda node: "importorskip" not in ast.unparse(node), body))
        imported = [node.module for node in body if isinstance(node, ast.ImportFrom)]
        imported += [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
        found = names.intersection(name.partition(".")[0] for name in imported)
        assert not found, f"{path.relative_to(ROOT)}: import {found} inside the tests, or by importorskip"


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
