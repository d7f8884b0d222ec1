"""What is predicted: closed forms in the letters b s d a L V t; integers only, no torch."""
