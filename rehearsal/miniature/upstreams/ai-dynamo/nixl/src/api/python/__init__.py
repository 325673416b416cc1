"""ucx() tells of the UCX that came along, plugin("UCX") of a plugin that is loaded from the wheel."""

from ._bindings import plugin, serialize, ucx

__all__ = ["plugin", "serialize", "ucx"]
