"""Scripts in one piece: a module for anywidget, a script for pages that cannot import a second file."""

import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parent / "page"
_IN_ORDER = (  # each imports earlier ones only
    "elements.js", "numbers.js", "sizes.js", "allocator.js", "formula.js", "sequence.js", "controls.js", "axes.js",
    "curves.js", "bars.js", "areas.js", "timeline.js", "moving_map.js", "table.js", "verdict.js", "keys.js", "view.js",
)  # fmt: skip
_IMPORT = re.compile(r'^import \{ [\w, ]+ \} from "[./\w]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |function |async |class )", re.MULTILINE)


def one_module() -> str:
    """An ES module with a widget's two functions, and what else the scripts export."""
    return _joined([PAGE / name for name in (*_IN_ORDER, "explorer.js")])


def one_script() -> str:
    """A classic script, which pages opened from a file can load too; it defines `everyByte` and nothing else.

    It draws explorers; each explorer's own script calls it.
    """
    return classic([PAGE / name for name in (*_IN_ORDER, "page.js")])


def classic(paths: Iterable[Path]) -> str:
    """ES modules as one classic script without exports; each of them may import earlier ones only."""
    return f"(() => {{\n{_EXPORT.sub('', _joined(paths))}}})();\n"


def _joined(paths: Iterable[Path]) -> str:
    """All scripts, one after the other, without the imports between them."""
    return "\n".join(_IMPORT.sub("", path.read_text(encoding="utf-8")) for path in paths)
