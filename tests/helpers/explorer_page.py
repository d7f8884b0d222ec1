"""An explorer in an open page: sets its controls as a reader does, and reads what it shows."""

import json

from playwright.sync_api import Locator, Page

# Moves the batch's slider and waits until the account is there: milliseconds to the busy state, and to the end.
MOVE = """async (root) => {
  const frame = () => new Promise(requestAnimationFrame);
  const slider = root.querySelector('[data-symbol="b"]');
  slider.value = Number(slider.value) === 2 ? 3 : 2;
  await frame();
  const start = performance.now();
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  await frame();
  const busy = root.getAttribute("aria-busy") === "true" ? performance.now() - start : NaN;
  await new Promise((done) => {
    const seen = new MutationObserver(() => root.dataset.state === "ready" && (seen.disconnect(), done()));
    seen.observe(root, { attributes: true, attributeFilter: ["data-state"] });
  });
  await frame();
  return [busy, performance.now() - start];
}"""
# Goes through settings faster than any is answered, and notes whose accounts are shown, from then to the last one's.
RUSH = """async (root) => {
  const shown = [];
  const note = () => root.dataset.state === "ready" && shown.push(JSON.parse(root.dataset.value).b);
  const seen = new MutationObserver(note);
  const slider = root.querySelector('[data-symbol="b"]');
  seen.observe(root, { attributes: true, attributeFilter: ["data-state", "data-value"] });
  for (const stop of [0, 1, 2, 3, 4, 5]) {
    slider.value = stop;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => setTimeout(done, 40));
  }
  while (!shown.length) await new Promise((done) => setTimeout(done, 20));
  seen.disconnect();
  return shown;
}"""

SETTLED = """(node) =>
  node.dataset.state !== "waiting" && !node.querySelector('.eb-fit[data-fits="waiting"]:not([hidden])')
"""
TYPES = """(root, symbols) => Object.fromEntries(
  symbols.map((symbol) => [symbol, root.querySelector(`[data-symbol="${symbol}"]`).type]),
)"""
# Of each row its name, its first cell, and of each number the text that a reader sees and the attribute.
READ = """(rows, kinds) => rows.map((row) => [
  row.dataset.term ?? row.dataset.stage,
  row.querySelector("th").innerText,
  kinds.map((kind) => [row.querySelector(`.eb-${kind}`).innerText, row.getAttribute(`data-${kind}`)]),
])"""
KINDS = ["predicted", "accounted", "difference"]


class ExplorerPage:
    """The first explorer of a page."""

    def __init__(self, page: Page):
        self.page = page
        self.root: Locator = page.locator(".eb").first
        self.root.scroll_into_view_if_needed()

    def control(self, symbol: str) -> Locator:
        """The slider, list, checkbox or radio buttons of a setting."""
        return self.root.locator(f'[data-symbol="{symbol}"]')

    @property
    def value(self) -> dict:
        """The setting that the page shows, as it names it."""
        return json.loads(self.root.get_attribute("data-value"))

    def set(self, settings: dict) -> None:
        """Sets every control through the page: options chosen, numbers typed; then waits for the account.

        Controls that have no effect at this setting are disabled: they keep what they say.
        """
        kinds = self.root.evaluate(TYPES, list(settings))
        kept = {}
        for symbol in sorted(settings, key=lambda symbol: kinds[symbol] == "range"):
            control, kind, item = self.control(symbol), kinds[symbol], settings[symbol]
            if control.first.is_disabled():
                kept[symbol] = self.value[symbol]
                continue
            if kind == "range":
                field = self.root.locator(f'[data-exact="{symbol}"]')
                field.fill(str(item))
                field.press("Enter")
            elif kind == "radio":
                self.root.locator(f'[data-symbol="{symbol}"][value="{item}"]').check()
            elif kind == "checkbox":
                control.set_checked(item == "on")
            else:
                control.select_option(item)
        self.settle()
        assert self.value == settings | kept

    def settle(self, timeout_s: int = 300) -> None:
        """Waits until the account of the shown setting and its verdict are there, or the sentence in their place."""
        handle = self.root.element_handle()
        self.page.wait_for_function(SETTLED, arg=handle, timeout=timeout_s * 1000)

    def rows(self) -> list[tuple[str, int | None, int | None]]:
        """Term, predicted and simulated bytes of each row but totals, from the text that a reader sees."""
        return self._read("tbody tr[data-term]")

    def stages(self) -> list[tuple[str, int | None, int | None]]:
        """The same of each stage's own row."""
        return self._read(".eb-stage tr")

    def open(self, stage: str) -> None:
        """Opens a stage's row, if it is closed."""
        button = self.root.locator(f'.eb-stage [data-stage="{stage}"] button')
        if button.get_attribute("aria-expanded") == "false":
            button.click()

    def total(self) -> tuple[str, int | None, int | None]:
        """The last row."""
        (row,) = self._read("tfoot tr")
        return row

    @property
    def status(self) -> str:
        """What the status line says."""
        return self.root.get_by_role("status").inner_text()

    @property
    def state(self) -> str:
        """Of the account: waiting, ready or failed."""
        return self.root.get_attribute("data-state")

    def _read(self, rows: str) -> list[tuple[str, int | None, int | None]]:
        """Reads rows at one instant, and checks that their attributes say what their text says."""
        return [self._row(*row) for row in self.root.locator(rows).evaluate_all(READ, KINDS)]

    @staticmethod
    def _row(name: str, head: str, numbers: list[tuple[str, str | None]]) -> tuple[str, int | None, int | None]:
        assert name in head
        predicted, simulated, difference = shown = [_number(text) for text, _ in numbers]
        assert [attribute for _, attribute in numbers] == [None if n is None else str(n) for n in shown]
        assert difference == (None if None in (predicted, simulated) else simulated - predicted)
        return name, predicted, simulated


def _number(text: str) -> int | None:
    first = text.splitlines()[0].replace(",", "")
    return None if first == "–" else int(first)
