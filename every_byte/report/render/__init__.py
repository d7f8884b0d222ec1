"""A report as text, as a page, in a notebook and as JSON: each reads the run, and the run knows none of them."""
