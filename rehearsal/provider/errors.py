"""Errors that are for the operator."""


class ProviderError(Exception):
    """What the operator asked for cannot be done; the message says what and why, without a traceback."""
