"""A report as text, as a page, in a notebook, and as JSON."""
