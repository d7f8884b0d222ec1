"""Magics for Jupyter: `%%gpu` runs a cell on a simulated GPU, and shows whose each byte of its memory is."""
