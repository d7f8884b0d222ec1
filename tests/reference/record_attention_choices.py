"""Ask the CUDA build of PyTorch which attention backend it takes, for many settings: attention_choices.json.

    STUB_CUDA_GPU=CARD tools/cuda_build/run.sh tests/reference/record_attention_choices.py CARD

Nothing of it depends on values. The file holds, for each card, the answers to the settings that
attention_cases.py draws from SEED, in order, one character each.
"""

import json
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import torch  # noqa: E402
from attention_cases import choices  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402

SEED, N = 2026, 4000
FILE = HERE / torch.__version__.split("+")[0] / "attention_choices.json"

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    answers = json.loads(FILE.read_text()) if FILE.exists() else {}
    answers[sys.argv[1]] = choices(torch.device("cuda"), SEED, N)
    write_whole(FILE, json.dumps(dict(sorted(answers.items())), indent=1) + "\n")
