"""Tensors that come and go until there is no room for one, though more than it needs lies free in pieces."""

import torch

MiB = 2**20


def main():
    tensors = [torch.empty(64 * MiB + i, dtype=torch.uint8, device="cuda") for i in range(14)]
    small = [torch.empty(4 * MiB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    del tensors[::2]
    pieces = [torch.empty(40 * MiB, dtype=torch.uint8, device="cuda") for _ in range(7)]
    last = torch.empty(120 * MiB, dtype=torch.uint8, device="cuda")
    return tensors, small, pieces, last


main()
