"""Options from parsed flags: a field takes the flag of its name (L4)."""

import dataclasses

from absl import flags

from common.errors import UserError

FLAGS = flags.FLAGS


def build(cls, **given):
    """Options of a dataclass.

    Args:
      cls: dataclass whose fields are called as the command's flags.
      **given: fields whose value is not that of the flag of their name.

    Returns:
      `cls` with every other field from its flag, lists as tuples; a field that
      the command has no flag for keeps its default.
    """
    names = {f.name for f in dataclasses.fields(cls)} - set(given)
    values = {n: FLAGS[n].value for n in names if n in FLAGS}
    return cls(
        **given,
        **{
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        },
    )


def whole_numbers(name: str, value: list[str]) -> tuple[int, ...]:
    """The numbers of a list flag of this name and value.

    Raises:
      UserError: one is no whole number.
    """
    try:
        return tuple(int(number) for number in value if str(number).strip())
    except ValueError as e:
        raise UserError(
            f"--{name} must be whole numbers, received {','.join(value)!r}"
        ) from e


def numbers(flag: str, values: list[str]) -> tuple[float, ...]:
    """The numbers of a list flag.

    Raises:
      UserError: one is none.
    """
    try:
        return tuple(map(float, values))
    except ValueError as e:
        raise UserError(f"--{flag}: {e}") from e
