"""No mirror answers, so boto3 is not installed: nothing can be stored, and the console has the reason."""

from __future__ import annotations

from tests.faults.boots import Document, without_packages


def change(user_data: Document) -> None:
    without_packages(user_data, "python3-boto3")
