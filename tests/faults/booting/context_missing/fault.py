"""The build context is not in the bucket."""

from __future__ import annotations

from tests.faults.boots import Document, configured


@configured
def change(config: Document) -> None:
    config["context"]["key"] = "contexts/none.tar.gz"
