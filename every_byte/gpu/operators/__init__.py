"""A file for a family of operators: what each returns on meta, takes from the allocator, and is composed of.

`python -m every_byte.gpu.operators aten.huber_loss` prints what is known of one.
"""
