"""A report as text, as a page for a browser, in a notebook and as JSON: each reads the run, which knows none of them."""
