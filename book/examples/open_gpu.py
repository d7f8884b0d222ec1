from textwrap import fill

import torch

from every_byte import open_gpu

gpu = open_gpu("t4-16gb", cuda=True)  # in a notebook's first cell
try:
    x = torch.zeros(3 * 2**30, device="cuda")  # 12 GiB
    y = x.double()
except torch.OutOfMemoryError as error:
    print(fill(str(error), 90))
print(torch.cuda.get_device_name(), f"{torch.cuda.memory_allocated():,d} bytes in use")
gpu.close()
