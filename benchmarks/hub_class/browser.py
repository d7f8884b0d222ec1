"""What a user's browser does with the hub and the user's own server: logs in, opens a notebook, runs its cells."""

import asyncio
import json
import re
import uuid
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlencode

from nbformat import NotebookNode, v4
from tornado.httpclient import AsyncHTTPClient, HTTPRequest, HTTPResponse
from tornado.websocket import WebSocketClientConnection, websocket_connect

from .people import Person

AsyncHTTPClient.configure(None, max_clients=200)
SERVER_S, CELL_S = 240, 300
LARGEST_MESSAGE = 100 * 2**20
OUTPUTS = ("stream", "display_data", "execute_result", "error")
WIDGET = "application/vnd.jupyter.widget-view+json"


class Browser:
    """One user's: `token` is theirs once they are logged in."""

    def __init__(self, address: str, person: Person) -> None:
        self.address, self.person, self.token = address, person, ""

    @property
    def server(self) -> str:
        """The address of the user's own server, behind the hub's proxy."""
        return f"{self.address}/user/{self.person.name}"

    async def ask(self, url: str, method: str = "GET", body: Any = None, token: str | None = None) -> HTTPResponse:
        """An answer, whatever its status; the user's own token goes with the question, or the one given."""
        token = self.token if token is None else token
        headers = {"Authorization": f"token {token}"} if token else {}
        content = None if body is None else json.dumps(body)
        request = HTTPRequest(
            url, method, headers, content, request_timeout=180, follow_redirects=False, allow_nonstandard_methods=True
        )
        return await AsyncHTTPClient().fetch(request, raise_error=False)

    async def asked(self, url: str, method: str = "GET", body: Any = None) -> Any:
        """What a good answer says.

        Raises: RuntimeError for another.
        """
        answer = await self.ask(url, method, body)
        if answer.code >= 300:
            raise RuntimeError(f"{method} {url}: {answer.code} {answer.body[:300]!r}")
        return json.loads(answer.body or "null")

    async def log_in(self) -> None:
        """Sends the hub's form with name and password, as a browser does, and asks for a token.

        Raises: RuntimeError for a login that the hub refuses.
        """
        page = f"{self.address}/hub/login"
        form = await AsyncHTTPClient().fetch(HTTPRequest(page, follow_redirects=False))
        cookies = [one.split(";")[0] for one in form.headers.get_list("Set-Cookie")]
        (xsrf,) = re.findall(r'name="_xsrf"\s+value="([^"]+)"', form.body.decode())
        fields = {"username": self.person.name, "password": self.person.password, "_xsrf": xsrf}
        headers = {"Cookie": "; ".join(cookies), "Content-Type": "application/x-www-form-urlencoded"}
        sent = HTTPRequest(page, "POST", headers, urlencode(fields), follow_redirects=False, request_timeout=180)
        answer = await AsyncHTTPClient().fetch(sent, raise_error=False)
        if answer.code != 302:
            raise RuntimeError(f"{self.person.name} cannot log in: {answer.code} {answer.body[-300:]!r}")
        proof = {"auth": {"username": self.person.name, "password": self.person.password}}
        self.token = (await self.asked(f"{self._in_hub}/tokens", "POST", proof))["token"]

    async def start_server(self) -> None:
        """Waits until the user's own server is there."""
        await self.ask(f"{self._in_hub}/server", "POST", {})
        async with asyncio.timeout(SERVER_S):
            while not (await self.asked(self._in_hub))["servers"].get("", {}).get("ready"):
                await asyncio.sleep(0.5)

    @property
    def _in_hub(self) -> str:
        return f"{self.address}/hub/api/users/{self.person.name}"

    async def contents(self, path: str) -> dict:
        """A file as the user's server has it."""
        return await self.asked(f"{self.server}/api/contents/{quote(path)}")

    async def open_kernel(self, path: str) -> "Kernel":
        """A kernel for the notebook of this path."""
        body = {"path": path, "name": PurePosixPath(path).name, "type": "notebook", "kernel": {"name": "python3"}}
        started = await self.asked(f"{self.server}/api/sessions", "POST", body)
        socket = await self.channels(started["kernel"]["id"])
        return Kernel(started["kernel"]["id"], started["id"], socket)

    async def close(self, kernel: "Kernel") -> None:
        """Closes the notebook, and ends its kernel with it, as the class's JupyterLab does."""
        await self.asked(f"{self.server}/api/sessions/{kernel.of_notebook}", "DELETE")
        kernel.close()

    async def channels(self, kernel_id: str, server: str = "") -> WebSocketClientConnection:
        """The websocket of a kernel, with this user's token; of the user's own server, unless another is given."""
        url = f"{server or self.server}/api/kernels/{kernel_id}/channels".replace("http", "ws", 1)
        request = HTTPRequest(url, headers={"Authorization": f"token {self.token}"}, request_timeout=60)
        socket = await websocket_connect(request, max_message_size=LARGEST_MESSAGE, ping_interval=None)
        socket.protocol.stream.set_nodelay(True)  # as browsers do
        return socket


class Kernel:
    """A running kernel: cells are run in it, widgets' messages are sent to it and heard from it.

    `widgets` has the state of each widget that it has opened, by the widget's id.
    """

    def __init__(self, kernel_id: str, of_notebook: str, socket: WebSocketClientConnection) -> None:
        self.id, self.of_notebook, self.socket, self.session = kernel_id, of_notebook, socket, uuid.uuid4().hex
        self.widgets: dict[str, dict] = {}
        self._heard, self._closed = asyncio.Condition(), False
        self._cells: dict[str, tuple[list[NotebookNode], set[str]]] = {}
        self._listens = asyncio.create_task(self._listen())

    def close(self) -> None:
        """Hears no more of the kernel, which goes on."""
        self._listens.cancel()
        self.socket.close()

    async def run(self, code: str, stops: bool = True) -> list[NotebookNode]:
        """The outputs of a cell."""
        asks = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": stops}
        number = await self.send("execute_request", asks | {"user_expressions": {}})
        outputs, ended = self._cells[number] = [], set()
        await self.until(lambda: ended == {"idle", "replied"}, CELL_S)
        del self._cells[number]
        return outputs

    async def send(self, kind: str, content: dict) -> str:
        """Sends a message on the shell channel; returns its id."""
        number = uuid.uuid4().hex
        header = {"msg_id": number, "msg_type": kind, "session": self.session, "username": "", "version": "5.3"}
        message = {"header": header | {"date": ""}, "parent_header": {}, "metadata": {}, "content": content}
        await self.socket.write_message(json.dumps(message | {"channel": "shell", "buffers": []}))
        return number

    async def until(self, holds, patience_s: float) -> None:
        """Waits for messages until `holds()`.

        Raises: RuntimeError where the kernel's connection closes, TimeoutError where it takes too long.
        """
        async with asyncio.timeout(patience_s), self._heard:
            while not holds():
                if self._closed:
                    raise RuntimeError("the kernel's connection has closed")
                await self._heard.wait()

    async def _listen(self) -> None:
        while (text := await self.socket.read_message()) is not None:
            if isinstance(text, str):  # a message with buffers comes as bytes; no explorer sends one
                self._take(json.loads(text))
            async with self._heard:
                self._heard.notify_all()
        self._closed = True
        async with self._heard:
            self._heard.notify_all()

    def _take(self, message: dict) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "comm_open":
            self.widgets[content["comm_id"]] = content["data"].get("state", {})
        elif kind == "comm_msg" and content["data"].get("method") == "update":
            self.widgets.setdefault(content["comm_id"], {}).update(content["data"]["state"])
        outputs, ended = self._cells.get(message["parent_header"].get("msg_id"), ([], set()))
        if kind in OUTPUTS:
            add_output(outputs, v4.output_from_msg(message))
        elif kind == "clear_output":
            outputs.clear()
        elif kind == "execute_reply":
            ended.add("replied")
        elif kind == "status" and content["execution_state"] == "idle":
            ended.add("idle")


def add_output(outputs: list[NotebookNode], output: NotebookNode) -> None:
    """Adds one, text to the text before it: how much of it comes in a message is chance."""
    last = outputs[-1] if outputs else {}
    if output.output_type == last.get("output_type") == "stream" and output.name == last["name"]:
        last["text"] += output.text
    else:
        outputs.append(output)


def shown_widget(outputs: list[NotebookNode]) -> str | None:
    """The id of the widget that a cell shows, if it shows one."""
    found = [output.data[WIDGET]["model_id"] for output in outputs if WIDGET in output.get("data", {})]
    return found[-1] if found else None
