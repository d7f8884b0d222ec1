"""What a run took of a GPU's memory: the figures, and whose they are; `render` shows them."""
