"""From a slider's move to the redrawn explorer: on the site's pages, without a kernel, and in JupyterLab.

    python benchmarks/page.py

On a page: for each explorer of the gallery, its first slider goes through all its stops, of which some have a stored
account and some a prediction alone. `drawn` is until everything is in the page and laid out, `painted` until the frame
after that; frames come every 17 ms here. In JupyterLab: benchmarks/slider.py, with the simulated GPU. Medians.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "browser")]

from explorer_files import write  # noqa: E402

from tools.chromium import chromium  # noqa: E402
from utils.gallery import GALLERY  # noqa: E402

N_WARM_UP, N_MOVES, N_STORED = 20, 200, 8
# The time until a slider has moved one stop on: drawn, and painted.
MOVE = """async () => {
  const root = document.querySelector(".eb");
  const slider = root.querySelector('.eb-controls [type="range"]');
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const start = performance.now();
  slider.stepUp();
  if (slider.value === slider.max) slider.value = slider.min;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  root.getBoundingClientRect(); // lays the page out
  const drawn = performance.now() - start;
  await frame();
  return [drawn, performance.now() - start, root.dataset.state];
}"""


def moves_of(page, name: str) -> list[tuple[float, float, str]]:
    """Milliseconds of each move, drawn and painted, and what was shown: ready with an account, or absent."""
    with tempfile.TemporaryDirectory() as folder:
        address, *_ = write(Path(folder), name, n_stored=N_STORED)
        page.goto(address)
        page.wait_for_selector(".eb")
        return [page.evaluate(MOVE) for _ in range(N_WARM_UP + N_MOVES)][N_WARM_UP:]


def main() -> None:
    """Print a line for each explorer on a page, then those of JupyterLab."""
    with chromium(viewport={"width": 1280, "height": 1000}) as page:
        for name in GALLERY:
            moves = moves_of(page, name)
            drawn, painted, states = zip(*moves)
            p95 = statistics.quantiles(drawn, n=20)[-1]
            print(
                f"{name:12} on a page: drawn {statistics.median(drawn):5.1f} ms (95th percentile {p95:.1f}), "
                f"painted {statistics.median(painted):5.1f} ms   ({len(moves)} moves, {states.count('ready')} stored)"
            )
    subprocess.run([sys.executable, _ROOT / "benchmarks" / "slider.py"], check=True)


if __name__ == "__main__":
    main()
