"""`torch.compile` on a simulated GPU: PyTorch's own compiler makes the program, and what it makes runs there.

Nothing of the compiler is modelled: Dynamo, AOTAutograd and Inductor are PyTorch's, with the properties of the card
that is simulated. What they make allocates on the simulated GPU; its Triton kernels do nothing.
"""
