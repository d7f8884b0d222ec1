"""One step of training of a model, run on a simulated GPU."""
