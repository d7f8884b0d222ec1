"""What moves: the book's explorers."""
