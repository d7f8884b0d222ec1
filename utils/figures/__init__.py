"""The book's own pictures: derivatives as curves, checkpointing and its price."""
