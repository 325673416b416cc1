"""docker/build-wheel.sh with the real uv and setuptools."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n',
    "setup.py": "\n".join(
        [
            "import os",
            "from setuptools import Extension, setup",
            'open("../setups", "a").write("once\\n")',
            'open("tiny.txt", "w").write(" ".join(set("abcdefghij")))',
            'sources = ["tiny.c"]',
            'module = Extension("tiny", sources)',
            'contents = {"py_modules": ["small"], "ext_modules": [module], "data_files": ["tiny.txt"]}',
            'setup(name="tiny", version="1.2.3", install_requires=["no-such-package"], **contents)',
        ]
    ),
    "small.py": "",
    "tiny.c": "#include <Python.h>\n"
    'static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tiny", 0, -1, 0};\n'
    "PyMODINIT_FUNC PyInit_tiny(void) { return PyModule_Create(&module); }\n",
}


def write(folder: Path, *, time: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in PROJECT.items():
        (folder / name).write_text(content)
        os.utime(folder / name, (time, time))


class BuildWheel:
    """The script in an environment with uv and setuptools, as the images have: the tests' own."""

    def __init__(self, script: Path, folder: Path) -> None:
        self.script, self.folder = script, folder

    def run(self, *arguments: str | Path, umask: int = 0o022, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return subprocess.run(
            [self.script, *arguments],
            check=False,
            capture_output=True,
            text=True,
            umask=umask,
            env={"PATH": path, "SOURCE_DATE_EPOCH": "1700000000", **variables},
            cwd=self.folder,
        )


@pytest.fixture
def build_wheel(checkout: Path, tmp_path: Path) -> BuildWheel:
    return BuildWheel(checkout / "docker/build-wheel.sh", tmp_path)


def test_the_same_twice(build_wheel: BuildWheel, tmp_path: Path) -> None:
    project = tmp_path / "project"
    sums = []
    for number, (time, umask) in enumerate([(1600000000, 0o022), (1650000000, 0o077)]):
        subprocess.run(["rm", "-rf", project], check=True)
        write(project, time=time)
        out = tmp_path / str(number)
        done = build_wheel.run(project, out, umask=umask)
        assert done.returncode == 0, done.stderr
        (wheel,) = out.iterdir()
        sums.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
        told = f"build-wheel: {wheel.name}, {wheel.stat().st_size} bytes, sha256 {sums[-1]}\n"
        assert done.stdout.endswith(told)
        assert oct(wheel.stat().st_mode)[-3:] == "644"
        assert (tmp_path / "setups").read_text() == "once\n" * (number + 1)
    assert wheel.name.startswith("tiny-1.2.3-cp")
    assert sums[0] == sums[1]
    assert {entry.date_time for entry in zipfile.ZipFile(wheel).infolist()} == {(2023, 11, 14, 22, 13, 20)}


def test_what_is_there_stays(build_wheel: BuildWheel, tmp_path: Path) -> None:
    write(tmp_path / "project", time=1600000000)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/other-1.whl").write_text("")
    # The folders may be named from where the step stands, and uv gets what follows them.
    done = build_wheel.run("./project", "out", "--config-setting=--build-option=--build-number=7")
    assert done.returncode == 0, done.stderr
    names = {"-".join(wheel.name.split("-")[:3]) for wheel in (tmp_path / "out").iterdir()}
    assert names == {"other-1.whl", "tiny-1.2.3-7"}
    assert done.stdout.count("build-wheel: ") == 1


def test_nothing_is_fetched_for_the_build(build_wheel: BuildWheel, tmp_path: Path) -> None:
    write(tmp_path / "project", time=1600000000)
    (tmp_path / "project/pyproject.toml").write_text('[build-system]\nrequires = ["no-such-tool>=99"]\n')
    done = build_wheel.run(tmp_path / "project", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_settings_of_uv_that_a_project_brings_are_not_ours(build_wheel: BuildWheel, tmp_path: Path) -> None:
    write(tmp_path, time=1600000000)
    with (tmp_path / "pyproject.toml").open("a") as file:
        file.write('[tool.uv]\nrequired-version = "==0.0.1"\n')
    done = build_wheel.run(".", "out")
    assert done.returncode == 0, done.stderr


def test_failing_build(build_wheel: BuildWheel, tmp_path: Path) -> None:
    write(tmp_path / "project", time=1600000000)
    (tmp_path / "project/tiny.c").write_text("int broken(void) { return }\n")
    done = build_wheel.run(tmp_path / "project", tmp_path / "out")
    assert done.returncode == 2, "uv's own"
    assert "tiny.c:1:" in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("epoch", ["", "yesterday"])
def test_no_time(build_wheel: BuildWheel, tmp_path: Path, epoch: str) -> None:
    done = build_wheel.run(tmp_path, tmp_path / "out", SOURCE_DATE_EPOCH=epoch)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f'build-wheel: SOURCE_DATE_EPOCH is "{epoch}": declare it in the stage (ARG SOURCE_DATE_EPOCH); '
        "Bake gives it to each target\n"
    )


def test_missing_arguments(build_wheel: BuildWheel) -> None:
    done = build_wheel.run("folder")
    assert (done.returncode, done.stderr) == (2, "build-wheel: usage: build-wheel FOLDER OUT [UV-ARGUMENT...]\n")
