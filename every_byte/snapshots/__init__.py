"""Snapshots that `torch.cuda.memory._dump_snapshot()` wrote: what they tell, and whether a simulation agrees."""
