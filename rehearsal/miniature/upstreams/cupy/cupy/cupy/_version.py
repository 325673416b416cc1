__version__ = "14.2.0"
