"""The version of this package: the book's edition."""

__version__ = "0.2.0"
