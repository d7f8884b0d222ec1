"""Which attention kernel CUDA takes, and what each takes from the allocator."""
