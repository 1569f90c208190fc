"""Named sets of values: `--recipe`."""
