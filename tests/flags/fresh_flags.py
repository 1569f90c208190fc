"""Flags of a command without those of others."""

from absl import flags


def remove_ours() -> None:
    """Deletes the flags that modules of `flags/` registered."""
    values = flags.FLAGS
    for module, found in list(values.flags_by_module_dict().items()):
        if module.startswith("flags."):
            for flag in list(found):
                if flag.name in values:
                    delattr(values, flag.name)
