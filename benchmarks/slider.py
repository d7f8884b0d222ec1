"""From a slider's move to the redrawn page, in JupyterLab in Chromium: the prediction alone, and with its account.

Usage: python benchmarks/slider.py [notebook] (the MLP chapter unless given; its slider is the width's)
"""

import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests" / "helpers")]

from explorer_page import ExplorerPage  # noqa: E402
from lab import Lab, lab_server  # noqa: E402
from places import CHAPTERS  # noqa: E402

N_WARM_UP, N_MOVES = 20, 200
# Moves the slider one stop on, notes when the prediction was in the page, and when the account was there and painted.
# The reader's next move comes a moment after the answer to the last.
MOVE = """async (root) => {
  const slider = root.querySelector('[data-symbol="d"]');
  const frame = () => new Promise(requestAnimationFrame);
  const position = Number(slider.value);
  slider.stepUp();
  if (Number(slider.value) === position) slider.value = slider.min;
  await frame();
  const start = performance.now();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  const predicted = performance.now() - start;
  await new Promise((done) => {
    const seen = new MutationObserver(() => root.dataset.state === "ready" && (seen.disconnect(), done()));
    seen.observe(root, { attributes: true, attributeFilter: ["data-state"] });
  });
  await frame();
  return [predicted, performance.now() - start];
}"""


def measure(notebook: Path) -> list[tuple[float, float]]:
    """Milliseconds of each move: prediction in the page, account painted."""
    with ExitStack() as stack:
        folder, scratch = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        address, token = stack.enter_context(lab_server(folder, scratch))
        page = stack.enter_context(Lab(folder, address, token).opened(notebook))
        explorer = ExplorerPage(page)
        explorer.settle()
        handle = explorer.root.element_handle()
        moves = []
        for _ in range(N_WARM_UP + N_MOVES):
            moves.append(page.evaluate(MOVE, handle))
            page.wait_for_timeout(30)
        return moves[N_WARM_UP:]


def main() -> None:
    """Prints median and 95th percentile of both."""
    notebook = Path(sys.argv[1]) if len(sys.argv) > 1 else CHAPTERS / "02_mlp_memory.ipynb"
    for name, times in zip(("prediction in the page", "account painted"), zip(*measure(notebook))):
        median, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(f"slider to {name:24} median {median:6.1f} ms   95th percentile {p95:6.1f} ms   ({len(times)} moves)")


if __name__ == "__main__":
    main()
