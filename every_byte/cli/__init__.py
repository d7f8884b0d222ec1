"""The commands `every-byte run`, `read` and `diff`: their options, and how a program of anybody's is run to its end."""
