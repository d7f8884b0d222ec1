"""An explorer in a Jupyter kernel of its own, asked as its page asks: by messages to its widget."""

import json
import random
from collections.abc import Iterator

from jupyter_client.manager import start_new_kernel

START = """
import json, warnings
warnings.simplefilter("ignore")
from every_byte.widget.explorer import from_page
from every_byte.widget.stages import terms_by_stage
from utils.explorers.{module} import {make}
explorer = {make}()
def predicted(settings):
    try:
        return terms_by_stage(explorer.predict(from_page(settings, explorer)))
    except Exception as error:
        return str(error)
print(json.dumps([explorer.comm.comm_id, explorer.spec["controls"]]))
"""
WITHIN_S = 120


class KernelExplorer:
    """An explorer of `utils.explorers`; `controls` are their specs, as a page has them."""

    def __init__(self, module: str, make: str):
        self._manager, self._client = start_new_kernel(kernel_name="python3")
        self._comm, self.controls = json.loads(self.printed(START.format(module=module, make=make)))
        self._n = 0

    def __enter__(self) -> "KernelExplorer":
        return self

    def __exit__(self, *exc_info) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    @property
    def is_alive(self) -> bool:
        """Whether the kernel runs, and answers."""
        return self._manager.is_alive() and self.printed("print(6 * 7)") == "42\n"

    def printed(self, code: str) -> str:
        """What some code prints in the kernel.

        Raises: AssertionError for code that raises.
        """
        parts = []

        def hear(message):
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                parts.append(message["content"]["text"])

        reply = self._client.execute_interactive(code, output_hook=hear, timeout=WITHIN_S)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(parts)

    def answer(self, settings: dict) -> dict:
        """What the widget answers a page that stands at these settings, and whether it fits if it judges that."""
        found = self._asked({"settings": settings})
        return found if found["fit_with"] is None else self._asked({"settings": settings, "judge": True})

    def _asked(self, words: dict) -> dict:
        self._n += 1
        asked = {"request": self._n, **words}
        data = {"method": "custom", "content": asked}
        session, channel = self._client.session, self._client.shell_channel
        channel.send(session.msg("comm_msg", {"comm_id": self._comm, "data": data}))
        while True:
            message = self._client.get_iopub_msg(timeout=WITHIN_S)
            assert message["msg_type"] != "error", message["content"]
            if message["msg_type"] == "comm_msg":
                answer = message["content"]["data"].get("state", {}).get("answer", {})
                if answer.get("request") == self._n:
                    return answer

    def predicted(self, settings: list[dict]) -> list[dict | str]:
        """What the formula says at each of them, as {stage: {term: bytes}}, or why it says nothing."""
        by_setting = []
        for i in range(0, len(settings), 20):  # a reply is waited for only so long
            of_some = f"[predicted(one) for one in {settings[i : i + 20]!r}]"
            by_setting += json.loads(self.printed(f"print(json.dumps({of_some}))"))
        return by_setting


def random_settings(controls: list[dict], n: int, seed: int) -> Iterator[tuple[dict, bool]]:
    """Settings as a page has them, and whether each item is one that its control has: of every fifth one is not."""
    draw = random.Random(seed)
    for i in range(n):
        settings = {spec["symbol"]: item_within(spec, draw) for spec in controls}
        if is_possible := i % 5 != 4:
            yield settings, is_possible
            continue
        spec = draw.choice(controls)
        yield {**settings, spec["symbol"]: draw.choice(_beyond(spec))}, False


def item_within(spec: dict, draw: random.Random):
    """An item that a control has, as a page has it."""
    if spec["kind"] != "range":
        return draw.choice([name for name in spec["options"] if name not in spec["disabled"]])
    if spec["stops"] and draw.random() < 0.5:
        return draw.choice(spec["stops"])
    return draw.randrange(spec["minimum"], spec["maximum"] + 1, spec["step"])


def _beyond(spec: dict) -> list:
    """Items that no page has: of another kind, out of range, between two steps."""
    of_any = [None, [], {}, 0.5, "no such option"]
    if spec["kind"] != "range":
        return [*of_any, 7, *spec["disabled"]]
    between = [spec["minimum"] + 1] * (spec["step"] > 1)
    return [*of_any, "12", True, -1, spec["maximum"] + spec["step"], 10**30, *between]
