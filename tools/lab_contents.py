"""How JupyterLab reads the book's notebooks: as it would write them, and without a kernel no slider but its table.

A widget's output has two forms, a live one and a table. Of a notebook that was saved, and whose kernel is gone,
JupyterLab would try the live one and show an error in its place. It also writes the kernel's particulars into each
notebook that it opens, and would ask whether to save a chapter that was only read. `make lab` reads notebooks through
`Chapters`, which leaves the one out and puts the other in.
"""

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


def without_live_outputs(notebook: dict) -> None:
    """Take the live form out of all outputs; what has no other that says something to a reader gets a sentence."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if data.pop(LIVE, None) and data.keys() <= {"text/plain"}:
                data["text/plain"] = SENTENCE
