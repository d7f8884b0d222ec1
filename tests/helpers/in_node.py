"""The scripts of explorers outside of a page: in Node.js, which answers in JSON."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from every_byte.widget.scripts import one_module

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, in the place of a browser")


def in_node(expression: str, given: Any) -> Any:
    """The value of an expression in which `given` is known, and whatever the scripts export.

    Raises: AssertionError for what it throws.
    """
    scripts = one_module().replace("export default", "const widget =").replace("\nexport ", "\n")
    told = f"process.stdout.write(JSON.stringify({expression}));"
    program = f"{scripts}\nconst given = {json.dumps(given)};\n{told}"
    ran = subprocess.run(["node", "-"], input=program, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)
