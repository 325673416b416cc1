"""The build context is another than the one that the user data names."""

from __future__ import annotations

from tests.faults.boots import Document, configured


@configured
def change(config: Document) -> None:
    config["context"]["sha256"] = "0" * 64
