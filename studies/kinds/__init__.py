"""The kinds of studies: what reads a file, its jobs and its report."""
