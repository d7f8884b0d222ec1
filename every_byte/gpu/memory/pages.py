"""Where the pages of an expandable segment begin: see expandable.py."""


class ExpandableSegment:
    """Addresses from `address` on, for `n_bytes` of pages of `page_bytes`."""

    def __init__(self, address: int, n_bytes: int, page_bytes: int) -> None:
        self.address, self.n_bytes, self.page_bytes = address, n_bytes, page_bytes

    def page_at(self, address: int) -> int:
        """The start of the page in which an address lies."""
        return address - (address - self.address) % self.page_bytes

    def page_from(self, address: int) -> int:
        """The start of the first page that begins there or behind."""
        return self.page_at(address + self.page_bytes - 1)
