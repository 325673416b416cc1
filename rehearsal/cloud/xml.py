"""XML documents from nested dictionaries, for the few answers that the cloud writes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree


def document(name: str, content: Mapping[str, Any], namespace: str | None = None) -> ElementTree.Element:
    """An element with the given children; a nested mapping becomes a nested element."""
    root = ElementTree.Element(name, {"xmlns": namespace} if namespace else {})
    _fill(root, content)
    return root


def _fill(parent: ElementTree.Element, content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        child = ElementTree.SubElement(parent, name)
        if isinstance(value, Mapping):
            _fill(child, value)
        else:
            child.text = str(value)
