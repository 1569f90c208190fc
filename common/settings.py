"""A setting is one field of a dataclass: everything about it stands there.

    learning_rate: float = setting(1e-5, "Largest rate.", bounds="> 0")

The command-line flag (`flags.flag_values`), the check of its value (`check`)
and the table of flags in the documentation are made from the field.
"""

import dataclasses
import math
from typing import Any

from common import checks
from common.errors import UserError

REQUIRED = dataclasses.MISSING
# Of finite numbers. No machine holds or counts so much, and products with sizes
# still fit 64 bits.
_ANY_NUMBER = "[-1e15, 1e15]"
_KEY = "setting"


# What an older task.json does not say and nothing can tell.
UNKNOWN = object()
HEAD, DATA = "head_options", "data_options"
FOLDER, VOCABULARY, CONFIG = "folder", "vocabulary", "config"


@dataclasses.dataclass(frozen=True)
class Kept:
    """A trained model keeps the value, in its task.json."""

    part: str  # `HEAD`, `DATA` or "" for a field of `TaskSpec`
    # another value would make it another model; else it may be changed
    # (lengths, lists of answers, names of columns) and is said
    meaning: bool
    # the value of a task.json that was written before it was kept
    before: Any = UNKNOWN
    key: str = ""  # its name in `part`; "" = that of the field


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a field's type and default do not say."""

    help: str  # what the value means, for `--help` and the documentation
    bounds: str = ""  # interval as `checks.within` takes it; "" = any number
    choices: tuple[str, ...] = ()
    flag: str = ""  # name of the flag; "" = that of the field
    # where a trained model keeps it; None = it does not
    kept: Kept | None = None
    # most people who use the command need it: `--help` shows it
    often: bool = False
    # it may be a name on Hugging Face's hub: `FOLDER` with its weights, or the
    # `VOCABULARY` or `CONFIG` of one; "" = it may not
    released: str = ""
    # each use of the flag gives one value of a tuple, which may hold commas
    repeated: bool = False


def setting(default: Any, help: str, **more: Any) -> Any:
    """A dataclass field with a `Setting`; `REQUIRED` = it has no default."""
    if "choices" in more:
        more["choices"] = tuple(more["choices"])
    return dataclasses.field(
        default=default, metadata={_KEY: Setting(help, **more)}
    )


def settings_of(options: Any) -> dict[str, Setting]:
    """Field name -> its setting, of a dataclass or an instance of one."""
    return {
        field.name: field.metadata[_KEY]
        for field in dataclasses.fields(options)
        if _KEY in field.metadata
    }


def check(options: Any) -> None:
    """Requires every setting to be within its bounds and choices.

    None passes where the field's type or default allows it. Raises UserError
    with the first flag whose value does not pass.
    """
    fields = {field.name: field for field in dataclasses.fields(options)}
    for name, one in settings_of(options).items():
        value = getattr(options, name)
        if value is None and _takes_none(fields[name]):
            continue
        form = f"--{one.flag or name}"
        if one.bounds:
            checks.within(options, one.bounds, name, form=form)
        elif isinstance(value, float) and math.isnan(value):
            # No comparison with it is true: whatever it bounds has no bound.
            raise UserError(f"{form} must be a number, received {value}")
        if type(value) in (int, float) and abs(value) < math.inf:
            checks.within(options, _ANY_NUMBER, name, form=form)
        if one.choices:
            checks.one_of(options, form, **{name: one.choices})


class Checked:
    """Base of dataclasses of which the settings are all that is checked."""

    def __post_init__(self) -> None:
        check(self)


def _takes_none(field: dataclasses.Field) -> bool:
    return field.default is None or type(None) in getattr(
        field.type, "__args__", ()
    )
