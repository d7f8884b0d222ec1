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
        help="the device, as the snapshot numbers them (default: that with the longest history)",
    )
    made.add_argument(
        "--most-mib",
        type=number,
        default=MOST_MIB,
        metavar="N",
        help="refuse a snapshot that takes more memory than this to open, in MiB; 1024 are some 10 s at most, and time "
        "grows with it (default: %(default)s)",
    )
