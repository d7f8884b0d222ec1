"""The extension that JupyterLab is told of: its package names the script, and the script has all its sources."""

import json

from tools.lab_extension import NAME, SOURCES, STYLES, build


def test_it_is_where_its_package_says(tmp_path):
    folder = build(tmp_path / "extensions")
    package = json.loads((folder / NAME / "package.json").read_text(encoding="utf-8"))
    script = (folder / NAME / package["jupyterlab"]["_build"]["load"]).read_text(encoding="utf-8")
    assert package["name"] == NAME
    assert all(path.read_text(encoding="utf-8") in script for path in SOURCES)
    assert all(json.dumps(path.read_text(encoding="utf-8"))[1:-1] in script for path in STYLES)
    assert f'(window._JUPYTERLAB ??= {{}})["{NAME}"] = ' in script
