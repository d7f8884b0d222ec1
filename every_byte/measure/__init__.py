"""A fixed suite of programs, run on this machine's own GPU and on its simulation: `every-byte measure`."""
