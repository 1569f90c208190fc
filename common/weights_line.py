"""How commands say which checkpoint they read."""


def weights_line(path: str, why: str = "") -> str:
    """One line.

    Args:
      path: of the checkpoint.
      why: this one of its folder's; "" = it was named.
    """
    return f"weights      {path}" + (f" ({why})" if why else "")
