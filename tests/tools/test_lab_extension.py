"""The extension that JupyterLab is told of: its script leaves a plugin where the package says and Lab looks."""

import json
import re
import shutil
import subprocess

import pytest

from book.extensions.folds import WORDS as FOLDS
from tools.lab_extension import NAME, SOURCES, build

# As JupyterLab loads a script that is built beforehand: it asks window._JUPYTERLAB for the module of each extension.
LOAD = """
const styles = [];
globalThis.window = globalThis;
globalThis.document = { createElement: () => ({}), head: { append: (style) => styles.push(style.textContent) } };
require("vm").runInThisContext(require("fs").readFileSync(process.argv[1], "utf8"));
(async () => {
  const { default: plugin } = (await _JUPYTERLAB[process.argv[3]].get(process.argv[2]))();
  const { id, autoStart, activate } = plugin;
  console.log(JSON.stringify({ id, autoStart, activate: typeof activate, styles }));
})();
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, in the place of a browser")
def test_lab_finds_a_plugin_where_the_package_says(tmp_path):
    folder = build(tmp_path / "extensions") / NAME
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    build_of = package["jupyterlab"]["_build"]
    script, exposed = folder / build_of["load"], build_of["extension"]
    ran = subprocess.run(["node", "-e", LOAD, script, exposed, NAME], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert package["name"] == NAME
    assert (found["id"], found["autoStart"], found["activate"]) == ("every-byte:predictions", True, "function")
    assert all(selector in found["styles"][0] for selector in (".eb-predict {", ".eb-covered >"))


def test_it_passes_over_the_folds_of_the_book():
    (listed,) = re.findall(r"const FOLDED = (\[.*\]);", SOURCES[-1].read_text(encoding="utf-8"))
    assert set(json.loads(listed)) == set(FOLDS)
