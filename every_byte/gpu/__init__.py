"""Where a program runs: a simulated GPU, or the machine's own under the same names."""
