"""The programs that are run: each takes an open GPU, or opens one, and returns what it left behind."""
