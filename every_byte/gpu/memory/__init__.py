"""What a GPU is and how it hands out bytes: spec, rules of a version, allocator, which storage lies in which block."""
