"""The commands of `every-byte`."""
