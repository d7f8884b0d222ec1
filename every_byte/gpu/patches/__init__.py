"""What in PyTorch is replaced while a simulated GPU is open or a live one is observed, and put back after."""
