"""Sparse tensors in coordinate form: moved, merged, made dense, and multiplied with dense matrices.

How many entries are left once equal indices are merged depends on the indices: where the host knows them it is known,
else as many are counted as there were, which is said.
"""

import math

import torch

from every_byte.gpu.known.evaluation import on_the_cpu
from every_byte.gpu.known.noting import note
from every_byte.gpu.known.reading import known_values
from every_byte.gpu.memory.attachment import attached
from every_byte.gpu.memory.physical import META, is_meta

from .launch import cub
from .launch.units import INDEX_BYTES
from .registry import on_sparse
from .sparse import made

aten = torch.ops.aten
