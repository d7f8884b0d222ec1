#!/bin/bash
# lab_python.sh [arguments]: python with the CUDA build of torch over the stub libraries, with what a notebook's kernel needs
# and this checkout on its path. run_notebooks.sh must have run once: it installs that. As the kernel of JupyterLab:
#   python tests/browser/on_the_machine.py --kernel tools/cuda_build/lab_python.sh
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${STUB_CUDA_HOME:-$HOME/.cache/stub-cuda}
export PYTHONPATH="$(cd "$here/../.." && pwd):$home/jupyter${PYTHONPATH:+:$PYTHONPATH}"
exec "$here/run.sh" "$@"
