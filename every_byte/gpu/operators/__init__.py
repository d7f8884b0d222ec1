"""A file for a family of operators: what each returns on meta, takes from the allocator, and is composed of."""
