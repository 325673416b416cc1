#!/usr/bin/env python3
"""Renames the package that a pyproject.toml builds."""

import argparse
from pathlib import Path

import tomlkit

parser = argparse.ArgumentParser()
parser.add_argument("--wheel-name", required=True)
parser.add_argument("file", type=Path)
arguments = parser.parse_args()

document = tomlkit.parse(arguments.file.read_text())
document["project"]["name"] = arguments.wheel_name
arguments.file.write_text(tomlkit.dumps(document))
