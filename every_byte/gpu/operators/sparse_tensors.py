"""Sparse tensors in coordinate form: moved, merged, made dense, and multiplied with dense matrices.

How many entries are left once equal indices are merged depends on the indices: where the host knows them it is known,
else as many are counted as there were, which is said.
"""

import torch

aten = torch.ops.aten
