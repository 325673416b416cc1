"""No mirror answers, so Docker is not installed."""

from __future__ import annotations

from tests.faults.boots import Document, without_packages


def change(user_data: Document) -> None:
    without_packages(user_data, "docker.io")
