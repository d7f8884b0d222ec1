"""Print the events of one phase of a recorded case, with the sum of the live requested bytes after each.

Called with a file of tests/reference it names the phases; with a phase behind it, "step 2 backward", and perhaps the
smallest size in bytes, it prints the events.
"""

import gzip
import json
import sys

with gzip.open(sys.argv[1]) as f:
    case = json.load(f)
if len(sys.argv) < 3:
    for mark in case["marks"]:
        print(f"{mark['name']:28s} " + "  ".join(f"{k} {mark[k]:>15,d}" for k in list(mark)[1:]))
    sys.exit()
wanted, smallest = sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
names = iter([m["name"] for m in case["marks"]] + [None])
phase, live, total = next(names), {}, 0


def show(index, what, size, note):
    """One event of the phase, if it is large enough."""
    if phase == wanted and abs(size) >= smallest:
        print(f"{index:6d} {what:13s} {size:>15,d} {total:>16,d}  {note}")


for i, event in enumerate(case.get("events", [])):
    kind = event[0]
    if kind == "mark":
        phase = next(names)
    elif kind == "alloc":
        _, number, size, operators, node, _ = event
        note = f"#{number} {operators}" + (f"  in {node}" if node else "")
        live[number], total = (size, note), total + size
        show(i, kind, size, note)
    elif kind == "free":
        size, note = live.pop(event[1])
        total -= size
        show(i, kind, -size, note)
    else:
        show(i, kind, event[1], "")
