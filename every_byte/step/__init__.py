"""Steps of training: of a reader's model on a simulated GPU, and where they end in a program of anybody's."""
