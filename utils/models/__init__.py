"""What is trained, and the ways to train it in fewer bytes: plain PyTorch, nothing of this book's GPU."""
