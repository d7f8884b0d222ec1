"""The parser that the commands share."""

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """A command's parser, which knows its options by what one writes: `--gpu`, `-m`."""

    def __init__(self, **settings: Any) -> None:
        self.options: dict[str, argparse.Action] = {}
        super().__init__(**settings)

    def add_argument(self, *names: Any, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        self.options |= dict.fromkeys(action.option_strings, action)
        return action
