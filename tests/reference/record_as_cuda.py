"""Record what programs that know "cuda" alone are told, and take, over the CUDA build of PyTorch: as_cuda.a100.json.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_as_cuda.py

The programs are the functions of the files in as_cuda; tests/helpers/as_cuda.py says what is kept of each. Nothing of
it depends on values.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1])]

import as_cuda  # noqa: E402

if __name__ == "__main__":
    as_cuda.write()
