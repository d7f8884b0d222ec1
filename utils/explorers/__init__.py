"""What moves: the book's six explorers."""
