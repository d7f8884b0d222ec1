"""What `every-byte read` and `every-byte diff` are told of a snapshot's file."""

import argparse

from every_byte.snapshots.files import MOST_MIB

from .options import number


def add_file_options(made: argparse.ArgumentParser) -> None:
    """The options that say how the file is opened."""
    made.add_argument(
        "--device",
        type=number,
        metavar="N",
        help="the device, by its number in the snapshot (default: the one with the longest history)",
    )
    made.add_argument(
        "--most-mib",
        type=number,
        default=MOST_MIB,
        metavar="N",
        help="refuse a snapshot that needs more than N MiB of memory to open; 1024 MiB take up to 10 s, and larger "
        "ones take longer (default: %(default)s)",
    )
