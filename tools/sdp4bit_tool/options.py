"""Shows every option of the library, with the value in force."""

from __future__ import annotations

import argparse

from .library import add_library_argument, open_library


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_library_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    print(open_library(arguments.library).text("sdp4bitOptionsInForce"), end="")
    return 0
