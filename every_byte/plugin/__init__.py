"""A plugin for pytest: tests run on a simulated GPU, held to a limit, to no growth, and to a stored baseline."""
