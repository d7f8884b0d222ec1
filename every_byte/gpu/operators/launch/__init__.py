"""How CUDA cuts work into thread blocks, and the scratch memory that this takes."""
