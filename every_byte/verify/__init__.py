"""Holds the simulated GPU to recordings of the PyTorch that runs here, or says that there are none."""
