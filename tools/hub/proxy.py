"""Installs the hub's proxy into build/hub, as tools/hub/package-lock.json pins it: `python -m tools.hub.proxy`."""

import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "hub"
COMMAND = FOLDER / "node_modules" / ".bin" / "configurable-http-proxy"


def install() -> Path:
    """Returns the proxy's command; nothing is installed twice.

    Raises: SystemExit where npm is missing.
    """
    stamp, wanted = FOLDER / "installed", hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    if not (stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted):
        if shutil.which("npm") is None:
            raise SystemExit("JupyterHub's proxy needs Node.js 20 or newer with npm. On Debian: apt-get install npm")
        FOLDER.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, FOLDER)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=FOLDER, check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return COMMAND


if __name__ == "__main__":
    print(install())
