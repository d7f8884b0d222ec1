"""How JupyterLab reads the book's notebooks: a slider that no kernel stands behind is read as the table stored with it.

A widget's output has two forms, a live one and a table. Of a notebook that was saved, and whose kernel is gone,
JupyterLab would try the live one and show an error in its place. `make lab` reads notebooks through `Chapters`, which
leaves it out.
"""

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

LIVE = "application/vnd.jupyter.widget-view+json"
SENTENCE = "A slider stands here while a kernel runs: run the cells up to this one."


class Chapters(AsyncLargeFileManager):
    """Files as JupyterLab's own manager reads them, but for the sliders of notebooks without a kernel."""

    async def get(self, path, content=True, type=None, format=None, **kwargs):
        """The model of a file; see AsyncContentsManager."""
        model = await super().get(path, content=content, type=type, format=format, **kwargs)
        if content and model["type"] == "notebook" and not await self._has_kernel(model["path"]):
            without_live_outputs(model["content"])
        return model

    async def _has_kernel(self, path: str) -> bool:
        sessions = await self.parent.session_manager.list_sessions()
        return any(session["path"] == path for session in sessions)


def without_live_outputs(notebook: dict) -> None:
    """Take the live form out of all outputs; what has no other that says something to a reader gets a sentence."""
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if data.pop(LIVE, None) and data.keys() <= {"text/plain"}:
                data["text/plain"] = SENTENCE
