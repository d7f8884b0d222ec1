"""A program of the reader: run, and reported."""
