"""docker/install-python.py with the real pip and uv, and a folder of wheels in place of a registry."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest


def wheel(folder: Path, name: str, version: str, *requires: str, files: dict[str, str] | None = None) -> Path:
    """A wheel whose only module is named as it is, unless it has other files."""
    module = name.replace("-", "_")
    information = f"{module}-{version}.dist-info"
    contents = {
        **(files or {f"{module}.py": f"version = {version!r}\n"}),
        f"{information}/METADATA": "\n".join(
            [
                "Metadata-Version: 2.1",
                f"Name: {name}",
                f"Version: {version}",
                *(f"Requires-Dist: {r}" for r in requires),
            ]
        ),
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}"
        for path, text in contents.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
        archive.writestr(f"{information}/RECORD", "\n".join([*record, f"{information}/RECORD,,"]))
    return path


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the registry and the siblings that it is filled from."""

    folder: Path
    script: Path

    @property
    def registry(self) -> Path:
        return self.folder / "registry"

    @property
    def siblings(self) -> Path:
        return self.folder / "siblings"

    @property
    def python(self) -> Path:
        return self.folder / "environment/bin/python"

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, self.script, *arguments],
            check=False,
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "PIP_NO_INDEX": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "UV_CONFIG_FILE": str(self.folder / "uv.toml"),
            },
            capture_output=True,
            text=True,
        )

    def installed(self) -> dict[str, str]:
        listed = subprocess.run(
            [self.python, "-m", "pip", "list", "--format=json", f"--path={self._site_packages()}"],
            check=True,
            env={"PATH": "/usr/bin:/bin", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            capture_output=True,
            text=True,
        )
        return {each["name"]: each["version"] for each in json.loads(listed.stdout)}

    def _site_packages(self) -> Path:
        return next((self.folder / "environment/lib").glob("python*/site-packages"))

    def see(self, other: str) -> None:
        """Find pip and packaging where these tests find theirs."""
        (self._site_packages() / "these-tests.pth").write_text(other)


@pytest.fixture
def environment(checkout: Path, tmp_path: Path) -> Environment:
    venv.create(tmp_path / "environment")
    made = Environment(tmp_path, checkout / "docker/install-python.py")
    made.see(sysconfig.get_path("purelib"))
    made.registry.mkdir()
    (tmp_path / "uv.toml").write_text(f'[pip]\nno-index = true\nfind-links = ["{made.registry}"]\n')
    return made


def test_siblings_and_what_they_require(environment: Environment) -> None:
    # A registry's own torch is newer, as well as on its list of what vllm asks for.
    wheel(environment.registry, "torch", "2.16.0")
    wheel(environment.registry, "sympy", "1.14")
    wheel(environment.registry, "timm", "1.1", "torch>=2")
    wheel(environment.registry, "only-for-an-extra", "1")
    wheel(environment.siblings / "pytorch", "torch", "2.15.0+rocm10", "sympy>=1.13", "triton==3.9.0")
    wheel(
        environment.siblings / "vllm",
        *("vllm", "0.33.0+rocm10", "torch==2.13.0", "timm>=1", 'only-for-an-extra; extra == "bench"'),
    )
    done = environment.run("siblings", environment.siblings)
    assert done.returncode == 0, done.stderr
    assert environment.installed() == {
        "torch": "2.15.0+rocm10",
        "vllm": "0.33.0+rocm10",
        "sympy": "1.14",
        "timm": "1.1",
    }
    assert [line for line in done.stdout.splitlines() if line.startswith("install-python: ")] == [
        "install-python: WARNING: vllm 0.33.0+rocm10 asks for torch==2.13.0, "
        "and what is installed is this stack's torch 2.15.0+rocm10"
    ]


@pytest.mark.parametrize("name", ["cupy-rocm-7-0", "cupy-cuda12x", "pytorch-triton-rocm", "nixl-cu12", "torchvision"])
def test_no_other_build_of_a_sibling(environment: Environment, name: str) -> None:
    wheel(environment.registry, name, "1")
    wheel(environment.siblings, "lmcache", "0.5.7", name)
    assert environment.run("siblings", environment.siblings).returncode == 0
    assert environment.installed() == {"lmcache": "0.5.7"}


def test_what_packages_say_of_siblings_replaces_none(environment: Environment) -> None:
    wheel(environment.registry, "torch", "2.16.0")
    wheel(environment.registry, "timm", "1.1", "torch>=2.16")
    wheel(environment.siblings, "torch", "2.15.0")
    wheel(environment.siblings, "vllm", "0.33.0", "timm")
    assert environment.run("siblings", environment.siblings).returncode == 0
    assert environment.installed() == {"torch": "2.15.0", "vllm": "0.33.0", "timm": "1.1"}


def test_requirements_that_exclude_each_other_fail_by_name(environment: Environment) -> None:
    for version in ["5.12.1", "5.13.0"]:
        wheel(environment.registry, "transformers", version)
    wheel(environment.siblings, "atom", "0.1.9", "transformers==5.12.1")
    wheel(environment.siblings, "vllm", "0.33.0", "transformers>=5.13")
    done = environment.run("siblings", environment.siblings)
    assert done.returncode == 1
    assert "you require transformers==5.12.1 and transformers>=5.13" in done.stderr


def test_a_replaced_file_is_named(environment: Environment) -> None:
    wheel(environment.registry, "another", "1", files={"cupy.py": "the wrong one"})
    path = wheel(environment.siblings, "cupy", "14.2.0", "another")
    done = environment.run("siblings", environment.siblings)
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"install-python: cupy.py is no longer the one of {path.name}: another package that was installed has such a "
        "file. If it is another build of the same package, add its name to OURS in docker/install-python.py\n"
    )


def test_two_wheels_of_one_name(environment: Environment) -> None:
    first = wheel(environment.siblings / "a", "nixl-rocm", "1")
    second = wheel(environment.siblings / "b", "nixl_rocm", "2")
    done = environment.run("siblings", environment.siblings)
    assert done.returncode == 1
    assert done.stderr == f"install-python: {second} and {first} are both nixl-rocm, of which there may be one\n"


def test_no_wheels(environment: Environment) -> None:
    done = environment.run("siblings", environment.siblings)
    assert done.returncode == 1
    assert done.stderr == (
        f"install-python: there is no wheel below {environment.siblings}: "
        "mount the folder /wheels of each sibling's image there\n"
    )


def test_build_requires(environment: Environment) -> None:
    for version in ["8.1", "9.2"]:
        wheel(environment.registry, "setuptools-scm", version)
    wheel(environment.registry, "torch", "2.13.0")
    wheel(environment.registry, "flydsl", "0.3.0")
    constraints = environment.folder / "constraints.txt"
    constraints.write_text("setuptools-scm==8.1\nnot-needed==1\n")
    (environment.folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools_scm>=8", "torch==2.13.0", "flydsl==0.3.0"]\n'
    )
    wheel(environment.registry, "auditwheel", "6")
    done = environment.run(
        *("build-requires", environment.folder, constraints), *("--also=auditwheel", "--without", "FlyDSL")
    )
    assert done.returncode == 0, done.stderr
    assert environment.installed() == {"setuptools-scm": "8.1", "auditwheel": "6"}


@pytest.mark.parametrize("right", [True, False])
def test_a_constraint_s_checksum_counts(environment: Environment, right: bool) -> None:
    path = wheel(environment.registry, "meson", "1.8")
    digest = hashlib.sha256(path.read_bytes() if right else b"another file").hexdigest()
    constraints = environment.folder / "constraints.txt"
    constraints.write_text(f"meson==1.8 --hash=sha256:{digest}\n")
    (environment.folder / "pyproject.toml").write_text('[build-system]\nrequires = ["meson>=1"]\n')
    done = environment.run("build-requires", environment.folder, constraints)
    if right:
        assert environment.installed() == {"meson": "1.8"}
    else:
        assert done.returncode == 1
        assert "Hash mismatch for `meson==1.8`" in done.stderr


def test_a_constraint_that_does_not_fit_is_named(environment: Environment) -> None:
    wheel(environment.registry, "meson", "1.8")
    constraints = environment.folder / "constraints.txt"
    constraints.write_text("meson==1.8\n")
    (environment.folder / "pyproject.toml").write_text('[build-system]\nrequires = ["meson>=1.9"]\n')
    done = environment.run("build-requires", environment.folder, constraints)
    assert done.returncode == 1
    assert "you require meson>=1.9 and meson==1.8" in done.stderr


@pytest.mark.parametrize("pythons", [">=3.10", f"<{sys.version_info.major}.{sys.version_info.minor}"])
def test_a_project_for_other_pythons_is_refused_before_it_is_built(environment: Environment, pythons: str) -> None:
    constraints = environment.folder / "constraints.txt"
    constraints.write_text("")
    file = environment.folder / "pyproject.toml"
    file.write_text(f'[build-system]\nrequires = []\n[project]\nrequires-python = "{pythons}"\n')
    done = environment.run("build-requires", environment.folder, constraints)
    if pythons == ">=3.10":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        assert (done.returncode, done.stderr) == (
            1,
            f"install-python: {file} is for Python {pythons}, and this is Python {python}: "
            "set PYTHON_VERSION to one of those\n",
        )


def test_a_project_that_does_not_say_what_building_takes(environment: Environment) -> None:
    done = environment.run("build-requires", environment.folder, environment.folder / "constraints.txt")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"install-python: {environment.folder}/pyproject.toml does not say what building takes: "
    )
