"""What a page costs: the front page's bytes, when its explorer is there, and a slider's move until it is redrawn.

    python benchmarks/page.py

The front page is that of the built site (`make site`), served on this machine. Then, for each of the explorers on
a page without a kernel, the first slider goes round all its stops, of which some have a stored account and some a
prediction alone. `drawn` is until everything is in the page and laid out, `painted` until the frame after that; frames
come every 17 ms here. In JupyterLab: benchmarks/slider.py, with the simulated GPU. Medians.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "helpers")]

from explorer_files import write  # noqa: E402
from site_pages import first_explorer_ms, served, visit  # noqa: E402

from tools.chromium import chromium  # noqa: E402
from tools.site import HTML  # noqa: E402
from utils.explorers.gallery import GALLERY  # noqa: E402

N_WARM_UP, N_MOVES, N_STORED = 20, 200, 8
# The time until a slider has moved one stop on: drawn, and painted.
MOVE = """async () => {
  const root = document.querySelector(".eb");
  const slider = root.querySelector('.eb-controls [type="range"]');
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const start = performance.now();
  if (slider.value === slider.max) slider.value = slider.min;
  else slider.stepUp();
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


def front_page() -> str:
    """What the front page weighs, and when its explorer has its account; the middle of five visits."""
    if not (HTML / "index.html").is_file():
        return "front page: there is no site in build/; `make site` builds it"
    took_ms, bytes_ = [], set()
    with served() as address:
        for _ in range(5):
            with visit(address, viewport={"width": 1280, "height": 900}) as seen:
                took_ms.append(first_explorer_ms(seen))
                bytes_.add((sum(seen.sizes.values()), len(seen.sizes)))
    [(n_bytes, n_files)] = bytes_
    return f"front page: {n_bytes:,} bytes in {n_files} files; its explorer after {statistics.median(took_ms):.0f} ms"


def main() -> None:
    """Print a line for the front page and for each explorer on a page, then those of JupyterLab."""
    print(front_page())
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
