"""A program of the reader: whether it fits, where its peak is, who owns it; as text, as JSON, and as a page."""
