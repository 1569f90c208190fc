"""Files of a model folder, for comparison."""


def files_of(folder):
    """The loss log, and the last checkpoint's values."""
    names = ("losses.tsv", "model.ckpt-12.data-00000-of-00001")
    return [(folder / name).read_bytes() for name in names]
