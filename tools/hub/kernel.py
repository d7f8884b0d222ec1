"""IPython's kernel, without its TCP port: the kernel of tools/hub/share, in the place of ipykernel's.

A kernel by ipc still opens one port of loopback, for the output of processes that it forks. What comes there from
somebody else is not taken as output, but its text is shown in a warning, in the notebook. Here that port is a socket in
the runtime folder, as all others are.
"""

import atexit
import os
from pathlib import Path

import zmq
from ipykernel import kernelapp
from ipykernel.iostream import IOPubThread
from jupyter_core.paths import jupyter_runtime_dir
from zmq.eventloop.zmqstream import ZMQStream


class PrivateIOPub(IOPubThread):
    """Output to the notebook; that of forked processes comes by a socket that only the user can reach."""

    def _setup_pipe_in(self) -> None:
        self._pipe_uuid, self._pipe_port = os.urandom(16), None
        path = Path(jupyter_runtime_dir()) / f"forked-{os.getpid()}"
        path.unlink(missing_ok=True)
        self._pipe_address = f"ipc://{path}"
        atexit.register(lambda: self._is_master_process() and path.unlink(missing_ok=True))
        pipe = self.socket.context.socket(zmq.PULL)
        pipe.linger = 0
        pipe.bind(self._pipe_address)
        self._pipe_in = ZMQStream(pipe, self.io_loop)
        self._pipe_in.on_recv(self._handle_pipe_msg)

    def _setup_pipe_out(self) -> tuple[zmq.Context, zmq.Socket]:
        context = zmq.Context()  # of the forked process: a new one
        pipe = context.socket(zmq.PUSH)
        pipe.linger = 3000
        pipe.connect(self._pipe_address)
        return context, pipe


if __name__ == "__main__":
    kernelapp.IOPubThread = PrivateIOPub
    kernelapp.launch_new_instance()
