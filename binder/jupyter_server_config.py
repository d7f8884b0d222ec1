"""What `make lab` says on its command line; binder/start shows it to whatever server is started."""

from pathlib import Path

from tools import lab_extension

BOOK = Path(__file__).resolve().parent.parent

c = get_config()  # noqa: F821, which Jupyter defines

c.ServerApp.root_dir = str(BOOK)
c.ServerApp.contents_manager_class = "tools.lab_contents.Chapters"
c.ServerApp.kernel_websocket_connection_class = "tools.lab_channels.AtOnce"
c.LabApp.default_url = "/lab/tree/chapters/00_start_here.ipynb"
c.LabApp.extra_labextensions_path = [str(lab_extension.build(BOOK / "build" / "lab"))]
