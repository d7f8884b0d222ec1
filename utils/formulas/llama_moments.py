"""The moments of a Llama's training step at which its peak may be: those of any decoder's."""

from .decoder_moments import MOMENTS, peak, why_no_peak

__all__ = ["MOMENTS", "peak", "why_no_peak"]
