"""Stored numbers and files that tests compare with."""

import pathlib

# Files of the first version: tests/xlnet_tf2/commands/test_first_format.py.
FIRST_FORMAT = pathlib.Path(__file__).with_name("first_format.tar.xz")
