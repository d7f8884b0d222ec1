"""Cases: small programs that are recorded on a GPU, and the files that hold what its allocator did."""
