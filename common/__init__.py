"""L0: errors and files, used by every package and importing none of them."""
