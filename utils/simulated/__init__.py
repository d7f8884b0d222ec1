"""The simulated GPU: what it is (specs), how it hands out memory (allocator), what runs on it (dispatch)."""
