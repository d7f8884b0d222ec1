"""The operations that book/verified_operations.md lists."""

import re

from places import ROOT

_PAGE = ROOT / "book" / "verified_operations.md"
LISTED = set(re.findall(r"^\| `(\S+::\S+)` \|", _PAGE.read_text(encoding="utf-8"), re.MULTILINE))
