"""The report of a run: where its peak is, who owns it, where it fits, and how far the figures can be trusted."""
