"""The explorers' scripts as one ES module, for anywidget and for pages that cannot import a second file."""

import re
from pathlib import Path

_HERE = Path(__file__).parent
_IN_ORDER = (  # each imports earlier ones only
    "elements.js", "formula.js", "controls.js", "axes.js", "curves.js", "bars.js", "areas.js", "timeline.js",
    "table.js", "verdict.js", "view.js", "explorer.js",
)  # fmt: skip
_IMPORT = re.compile(r'^import \{ [\w, ]+ \} from "\./\w+\.js";\n', re.MULTILINE)


def one_module() -> str:
    """All scripts, one after the other, without the imports between them."""
    return "\n".join(_IMPORT.sub("", (_HERE / name).read_text(encoding="utf-8")) for name in _IN_ORDER)
