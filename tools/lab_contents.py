"""How JupyterLab reads the book's notebooks: as it would write them, and without a kernel no slider but its table.

A widget's output has two forms, a live one and a table. Of a notebook that was saved, and whose kernel is gone,
JupyterLab would try the live one and show an error in its place. It also writes the kernel's particulars into each
notebook that it opens, and would ask whether to save a chapter that was only read. `make lab` reads notebooks through
`Chapters`, which leaves the one out and puts the other in; and writes them without either, so that a chapter that was
run and gave what is stored is, once saved, the file that it was.
"""

import asyncio
import json
from pathlib import Path

from ipykernel.ipkernel import IPythonKernel
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

LIVE = "application/vnd.jupyter.widget-view+json"
SENTENCE = "A slider stands here while a kernel runs: run the cells up to this one."


class Chapters(AsyncLargeFileManager):
    """Files as JupyterLab's own manager reads them, but for sliders without a kernel and what it would write."""

    async def get(self, path, content=True, type=None, format=None, **kwargs):
        """The model of a file; see AsyncContentsManager."""
        model = await super().get(path, content=content, type=type, format=format, **kwargs)
        if content and model["type"] == "notebook":
            as_lab_writes(model["content"], self._name_of_kernel(model["content"]))
            if not await self._has_kernel(model["path"]):
                without_live_outputs(model["content"])
        return model

    async def save(self, model, path=""):
        """Write a file; see AsyncContentsManager. A notebook is written as it is stored, where it says the same."""
        if model.get("type") == "notebook" and model.get("content"):
            file = Path(self._get_os_path(path))
            if file.is_file():
                as_stored(model["content"], json.loads(await asyncio.to_thread(file.read_text, encoding="utf-8")))
        return await super().save(model, path)

    def _name_of_kernel(self, notebook: dict) -> str | None:
        spec = notebook["metadata"].get("kernelspec", {})
        known = self.parent.kernel_spec_manager.get_all_specs().get(spec.get("name"))
        return known and known["spec"]["display_name"]

    async def _has_kernel(self, path: str) -> bool:
        sessions = await self.parent.session_manager.list_sessions()
        return any(session["path"] == path for session in sessions)


def as_lab_writes(notebook: dict, display_name: str | None) -> None:
    """Put in what JupyterLab does when it opens a notebook of Python, given what the server calls its kernel."""
    if display_name and notebook["metadata"].get("language_info", {}).get("name") == "python":
        notebook["metadata"]["kernelspec"]["display_name"] = display_name
        notebook["metadata"]["language_info"] = dict(IPythonKernel.language_info)
    for cell in notebook["cells"]:
        if cell.get("metadata", {}).get("jupyter", {}).get("outputs_hidden"):
            cell["metadata"]["collapsed"] = True


def as_stored(notebook: dict, stored: dict) -> None:
    """Take out what JupyterLab has put into a notebook, and leave live outputs that show what is stored as they are."""
    before, now = stored.get("metadata", {}), notebook["metadata"]
    if before.get("kernelspec", {}).get("name") == now.get("kernelspec", {}).get("name"):
        now.update({name: before[name] for name in ("kernelspec", "language_info") if name in before})
    cells = {cell["id"]: cell for cell in stored.get("cells", ()) if "id" in cell}
    for cell in notebook["cells"]:
        old = cells.get(cell.get("id"), {})
        if "collapsed" not in old.get("metadata", {}):
            cell["metadata"].pop("collapsed", None)
        cell["metadata"].pop("execution", None)  # when it ran
        for output, other in zip(cell.get("outputs", ()), old.get("outputs", ()), strict=False):
            if LIVE in other.get("data", {}) and _shown(output) == _shown(other):
                output["data"] = other["data"]


def _shown(output: dict) -> dict:
    """What an output shows without a kernel, in one text each, as files have it in lines."""
    data = {kind: text for kind, text in output.get("data", {}).items() if kind != LIVE}
    return {kind: "".join(text) if isinstance(text, list) else text for kind, text in data.items()}


def without_live_outputs(notebook: dict) -> None:
    """Take the live form out of all outputs; what has no other that says something to a reader gets a sentence."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if data.pop(LIVE, None) and data.keys() <= {"text/plain"}:
                data["text/plain"] = SENTENCE
