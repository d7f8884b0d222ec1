"""What a simulated GPU says of what it does not follow: noted in the trace, and told the program."""

import sys
import warnings
from typing import TypeVar

from every_byte.gpu.memory.storages import Memory

from .places import line_of_the_program

_Error = TypeVar("_Error", bound=Exception)


class Telling:
    """What the dispatch mode of one simulated GPU tells."""

    memory: Memory

    def refuse(self, name: str, error: _Error) -> _Error:
        """Note that what was asked for is not followed here, though a card may run it; returns the error to raise."""
        trace = self.memory.trace
        trace.notes.refused.setdefault(f"{name} at {line_of_the_program()[2]}", len(trace.events))
        return error

    def not_modelled(self, name: str, why: str = "") -> None:
        """Say once, by name, that an operation's temporary memory is not known, or why something else is not."""
        trace = self.memory.trace
        if name not in trace.notes.unmodelled:
            trace.notes.unmodelled[name] = len(trace.events)
            usual = f"{name} is not modelled: its outputs are counted, what its kernels take meanwhile is not."
            self.tell(why or usual, *line_of_the_program()[:2])

    def tell_unknown(self, what: str, happens: str = "reads zeros") -> None:
        """Note at which line of the program an unknown value was read; warn, once a line, what is made of it."""
        filename, lineno, place = line_of_the_program()
        trace = self.memory.trace
        if place not in trace.notes.values_read:
            trace.notes.values_read[place] = len(trace.events)
            sentence = f"nothing is computed on a simulated GPU: {what} {happens} at {place}. Where values matter, "
            self.tell(sentence + "compute on the CPU.", filename, lineno)

    def note_assumed(self, what: str) -> None:
        """Note what is assumed of values on which a size depends, as "nonzero=all", and at which line."""
        trace = self.memory.trace
        trace.notes.assumed.setdefault(f"{what} at {line_of_the_program()[2]}", len(trace.events))

    def tell(self, what: str, filename: str, lineno: int) -> None:
        """Warn. Where "cuda" is simulated the program is not to end by it, whatever it makes of warnings."""
        try:
            warnings.warn_explicit(what, UserWarning, filename, lineno)
        except UserWarning:
            if self.memory.as_cuda is None:
                raise
            print(warnings.formatwarning(what, UserWarning, filename, lineno), end="", file=sys.stderr)
