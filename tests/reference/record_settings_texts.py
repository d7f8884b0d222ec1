"""Record what PyTorch says to the allocator's settings, right and wrong: settings_texts.json.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_settings_texts.py

- `texts`: of each text, `at_run_time`, what torch.cuda.memory._set_allocator_settings answers in a fresh process, and
  of part of them `in_environment`, what torch.cuda.init() answers in a process that has the text as PYTORCH_ALLOC_CONF.
  An answer has `error`, [type, first line of its message] or null, with "the process ends" in place of a type where C++
  ends it; and if there was none, all that is not as by default of what PyTorch tells of its settings, and of
  `large_segment`, the bytes that a first request of 3 MiB reserves, `fraction`, what get_per_process_memory_fraction
  answers, `rejects`, whether a request larger than the card is rejected before the driver is asked, `too_large`, what
  such a request raises other than torch.OutOfMemoryError, and `backend`.
- `variables`: the same of processes with several environment variables.
- `fractions`: what set_per_process_memory_fraction says to values, and what the getter answers then.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import torch

from every_byte.units import MiB
from every_byte.whole_files import write_whole

HERE = Path(__file__).resolve().parent
FLAGS = (
    "expandable_segments", "throw_on_cudamalloc_oom", "release_lock_on_cudamalloc", "graph_capture_record_stream_reuse",
    "pinned_use_cuda_host_register", "pinned_use_background_threads", "pinned_free_catch_all",
)  # fmt: skip
SIZES = ("max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb")
DIVISIONS = """0 1 2 3 4 7 16 1024 x -2 [] [1:2] [2:1,>:4] [256:1,512:2,1024:4,>:8] [256:1,512:2,1024:4,>:8
    [256:1,512:2, [ [256] [256:3] [257:2] [0:2] [x:2] [256:x] [>:2] [>:2,4:8] [65536:4] [1:0,2:0,>:0] [256:1,] [-1:2]
    [1:2:4] [4:8,2:16]""".split()
AS_WRITTEN = """

,
:
,,
foo
foo:1
foo:[1,2]
expandable_segments
expandable_segments:
expandable_segments True
expandable_segments=True
expandable_segments,True
expandable_segments::True
 expandable_segments : True
expandable_segments:T rue
Expandable_Segments:True
expandable_segments:True,
,expandable_segments:True
expandable_segments:True,,max_split_size_mb:64
expandable_segments:[True]
expandable_segments:True;max_split_size_mb:64
expandable_segments:True max_split_size_mb:64
expandable_segments:True:max_split_size_mb:64
expandable_segments:True,expandable_segments:False
max_split_size_mb:64,max_split_size_mb:32
max_split_size_mb:32,foo:1,expandable_segments:True
max_split_size_mb:24,large_segment_size_mb:32
large_segment_size_mb:32,max_split_size_mb:32
large_segment_size_mb:11,max_split_size_mb:11,max_non_split_rounding_mb:11
max_split_size_mb:19
max_split_size_mb:20
max_split_size_mb:64MB
max_split_size_mb:17592186044416
max_non_split_rounding_mb:19
max_non_split_rounding_mb:20
large_segment_size_mb:10
large_segment_size_mb:11
pinned_num_register_threads:0
pinned_num_register_threads:3
pinned_num_register_threads:8
pinned_num_register_threads:256
pinned_reserve_segment_size_mb:0
pinned_reserve_segment_size_mb:64
pinned_max_round_threshold_mb:0
pinned_max_round_threshold_mb:64
pinned_max_cached_size_mb:64
pinned_max_cached_size_mb:x
release_lock_on_hipmalloc:True
pinned_use_hip_host_register:True
backend:native
backend:cudaMallocAsync
backend:cudaMallocAsync,max_split_size_mb:64
backend:foo
backend:
backend
expandable_segments_reserve:0.5""".split("\n")
TEXTS = (
    *AS_WRITTEN,
    *(f"{name}:{value}" for name in SIZES for value in ("", "0", "-1", "64.5", "x", "99999999999999999999", "[64]")),
    *(f"roundup_power2_divisions:{value}" for value in DIVISIONS),
    *(f"garbage_collection_threshold:{v}" for v in "0 0.0 1e-9 0.8 1 1.0 2 -0.5 x nan 0,8".split()),
    *(f"per_process_memory_fraction:{v}" for v in "0 0.5 1 1.0 1.5 -0.1 x nan 50%".split()),
    *(f"{name}:{value}" for name in FLAGS for value in ("True", "False", "true", "1", "")),
)
NEW, OLD, HIP = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"
VARIABLES = (
    {NEW: "max_split_size_mb:64"}, {OLD: "max_split_size_mb:64"}, {HIP: "max_split_size_mb:64"},
    {NEW: "max_split_size_mb:64", OLD: "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5"},
    {OLD: "max_split_size_mb:64", NEW: "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5"},
    {OLD: "", NEW: "max_split_size_mb:64,per_process_memory_fraction:0.5"}, {OLD: "foo:1", NEW: "max_split_size_mb:64"},
    {OLD: "max_split_size_mb:64", NEW: "foo:1"}, {HIP: "max_split_size_mb:32", NEW: "max_split_size_mb:64"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", NEW: "foo:1"},
)  # fmt: skip
FRACTIONS = (0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0, -0.0, -0.1, 1.5, 1, 0, True, "x", "0.5", None, float("nan"), float("inf"))


def first_line(error):
    return str(error).strip().split("\n")[0]


def answer(change):
    """What `change` raises, or what is set afterwards."""
    try:
        change()
    except Exception as raised:
        return {"error": [type(raised).__name__, first_line(raised)]}
    return {"error": None} | state()


def state():
    """What differs from the defaults of what can be seen of the settings."""
    cuda = torch.cuda
    found = {"backend": cuda.get_allocator_backend(), "fraction": cuda.get_per_process_memory_fraction()}
    try:
        keep = torch.empty(3 * MiB, dtype=torch.uint8, device="cuda")
        found["large_segment"] = cuda.memory_stats().get("reserved_bytes.all.current")
        del keep
    except RuntimeError:
        found["large_segment"] = "more than there is"
    try:
        torch.empty(2**50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        found["rejects"] = bool(cuda.memory_stats().get("num_oom_rejections"))
    except RuntimeError as raised:
        found["too_large"] = [type(raised).__name__, first_line(raised)]
    if found["backend"] != "native":
        return found
    told = cuda.memory._snapshot()["allocator_settings"]
    del told["PYTORCH_CUDA_ALLOC_CONF"]
    told["roundup_power2_divisions"] = {k: v for k, v in told["roundup_power2_divisions"].items() if v}
    found |= told
    usual = {
        "backend": "native", "fraction": 1.0, "large_segment": 20 * MiB, "max_split_size": -1,
        "pinned_num_register_threads": 1, "max_round_threshold": -1, "max_cached_size": -1,
    }  # fmt: skip
    return {
        name: value for name, value in found.items() if value != usual.get(name, value) or name not in usual and value
    }


def at_run_time(text):
    """In a child of this process, which has not begun with CUDA."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        torch.cuda.init()
        warnings.simplefilter("ignore")
        result = answer(lambda: torch.cuda.memory._set_allocator_settings(text))
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said)


def in_environment(variables):
    command = [sys.executable, __file__, "--here"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    if done.returncode == 0:
        return json.loads(done.stdout)
    said = next(line for line in done.stderr.split("\n") if "what():" in line)
    return {"error": ["the process ends", said.split("what():")[1].strip()]}


def fractions():
    result = []
    for value in FRACTIONS:
        said = answer(lambda value=value: torch.cuda.set_per_process_memory_fraction(value))
        result.append([repr(value), said["error"], torch.cuda.get_per_process_memory_fraction()])
    return result


def main():
    texts = [{"text": text, "at_run_time": at_run_time(text)} for text in TEXTS]
    for row in texts[: len(AS_WRITTEN)]:
        row["in_environment"] = in_environment({NEW: row["text"]})
    result = {
        "texts": texts,
        "variables": [{"variables": v, "in_environment": in_environment(v)} for v in VARIABLES],
        "fractions": fractions(),
    }
    head = {"torch": torch.__version__, "device_name": torch.cuda.get_device_name()}
    parts = (
        f'"{key}": [\n{chr(10).join(json.dumps(row) + "," for row in rows)[:-1]}\n]' for key, rows in result.items()
    )
    file = HERE / torch.__version__.split("+")[0] / "settings_texts.json"
    write_whole(file, f"{json.dumps(head)[:-1]}, {', '.join(parts)}}}\n")
    print(f"{len(texts)} texts of torch {torch.__version__}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(answer(torch.cuda.init)))
    else:
        main()
