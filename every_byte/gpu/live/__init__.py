"""The machine's own GPU: its allocator's history, and who was seen using what, as the trace of a simulated one."""
