"""The one kind of error that the program shows to its operator as a message, without a traceback."""

from __future__ import annotations


class RefusedError(Exception):
    """The program will not go on. The message says what is wrong, what is allowed and how to put it right."""
