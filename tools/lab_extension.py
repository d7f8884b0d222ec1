"""Puts together JupyterLab's fields for predictions: `python -m tools.lab_extension` prints the extension's folder.

An extension that is built beforehand is a script that leaves a module where JupyterLab looks for it. Ours is small
enough to be put together from its sources as they are, without a bundler.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "every-byte-predictions"
_OF_PAGES = ROOT / "book" / "_static"
SOURCES = (_OF_PAGES / "storage.js", _OF_PAGES / "predictions.js", ROOT / "tools" / "lab_predictions" / "plugin.js")
STYLES = (_OF_PAGES / "predictions.css", ROOT / "tools" / "lab_predictions" / "plugin.css")
_MODULE = """
{{
  const style = document.createElement("style");
  style.textContent = {style};
  document.head.append(style);
  const module = {{ __esModule: true, default: everyBytePlugin }};
  (window._JUPYTERLAB ??= {{}})[{name}] = {{ init: () => undefined, get: async () => () => module }};
}}
"""


def build(folder: Path) -> Path:
    """Write the extension below `folder`, which JupyterLab is then told of as LabServerApp.extra_labextensions_path."""
    static = folder / NAME / "static"
    static.mkdir(parents=True, exist_ok=True)
    parts = [path.read_text(encoding="utf-8") for path in SOURCES]
    style = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    script = "\n".join(parts) + _MODULE.format(style=json.dumps(style), name=json.dumps(NAME))
    (static / "remoteEntry.js").write_text(script, encoding="utf-8")
    package = {"name": NAME, "version": "1.0.0", "license": "MIT", "jupyterlab": {"extension": True, "outputDir": "."}}
    package["jupyterlab"]["_build"] = {"load": "static/remoteEntry.js", "extension": "./extension"}
    (folder / NAME / "package.json").write_text(json.dumps(package, indent=2) + "\n", encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.stdout.write(f"{build(ROOT / 'build' / 'lab')}\n")
