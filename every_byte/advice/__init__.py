"""Advice that was run: each remedy applied from outside to a reader's step, with its bytes, its price and its lines."""
