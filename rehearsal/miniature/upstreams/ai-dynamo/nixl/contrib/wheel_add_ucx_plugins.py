#!/usr/bin/env python3
"""Puts what is loaded at run time into repaired wheels, next to what auditwheel put there: UCX's modules into
<package>.libs/ucx, NIXL's plugins into <package>.libs/nixl. What these are linked with is the wheel's own then."""

import argparse
import base64
import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path


def patchelf(*arguments):
    return subprocess.run(["patchelf", *arguments], check=True, capture_output=True, text=True).stdout.split()


def add(libraries, source, name):
    # auditwheel's names have a hash in them: libucs-1a2b3c4d.so.0.0.0.
    there = {path.name.split("-")[0]: path.name for path in libraries.glob("*-*.so*")}
    target = libraries / name
    target.mkdir()
    files = [path for path in sorted(source.iterdir()) if ".so" in path.name and not path.is_symlink()]
    if not files:
        raise SystemExit(f"no plugins found in {source}")
    for file in files:
        copied = target / file.name
        copied.write_bytes(file.read_bytes())
        patchelf("--set-rpath", "$ORIGIN/..:$ORIGIN", str(copied))
        for needed in patchelf("--print-needed", str(copied)):
            if needed.split(".")[0] in there:
                patchelf("--replace-needed", needed, there[needed.split(".")[0]], str(copied))


def write_record(folder):
    (record,) = folder.glob("*.dist-info/RECORD")
    lines = [f"{record.relative_to(folder)},,"]
    for file in folder.rglob("*"):
        if file.is_file() and file != record:
            content = file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{file.relative_to(folder)},sha256={digest},{len(content)}")
    record.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ucx-plugins-dir", type=Path, required=True)
    parser.add_argument("--nixl-plugins-dir", type=Path, required=True)
    parser.add_argument("wheels", type=Path, nargs="+")
    arguments = parser.parse_args()
    for wheel in arguments.wheels:
        with tempfile.TemporaryDirectory() as folder:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            libraries = Path(folder, f"{wheel.name.split('-')[0]}.libs")
            add(libraries, arguments.ucx_plugins_dir, "ucx")
            add(libraries, arguments.nixl_plugins_dir, "nixl")
            write_record(Path(folder))
            # As the real one: with the times of this run.
            with zipfile.ZipFile(wheel, "w", compression=zipfile.ZIP_DEFLATED) as archive:
                for file in Path(folder).rglob("*"):
                    archive.write(file, file.relative_to(folder))


if __name__ == "__main__":
    main()
