"""How JupyterLab hears from a kernel: each message at once.

A cell's or a slider's answer is several small messages. TCP holds the later ones back until the first is acknowledged,
which the other side puts off for some 40 ms: Nagle's algorithm, and delayed acknowledgement.
"""

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class AtOnce(ZMQChannelsWebsocketConnection):
    """The server's own connection, without Nagle's algorithm."""

    def connect(self):
        """When the websocket is open; see ZMQChannelsWebsocketConnection."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
