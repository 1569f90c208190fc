"""Flags from the settings of dataclasses, and dataclasses from flags.

Not `simple_parsing`, nor `etils.eapp` with it: they take no --flagfile and no
lists with commas, and what they read is not in absl's FLAGS, where recipes and
`flagsaver` change it.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from common.checks import follows
from common.errors import UserError
from common.settings import REQUIRED, Setting, settings_of
from common.vocabularies.text_settings import TextChoice
from flags import text_flags

FLAGS = flags.FLAGS
_SCALARS = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}
# Names of flags that `--help` shows of a command with many.
often: set[str] = set()
# Flags whose value may be a name on the hub -> what of the model they name.
released: dict[str, str] = {}
# A flag belongs to the module that asks for it, which titles it in --help.
flags.disclaim_key_flags()


def define(
    cls: type, *names: str, without: tuple[str, ...] = (), **defaults: Any
) -> None:
    """Registers the flags of a dataclass's settings.

    A field that holds a `TextChoice` has the text settings' flags.

    Args:
      cls: its fields with a `common.settings.Setting` have flags.
      *names: fields to take; none = all.
      **defaults: field or flag -> default of the flag, where it is not the
        field's; others are ignored.
    """
    settings = settings_of(cls)
    unknown = {*names, *without} - set(settings)
    if unknown:
        raise ValueError(f"no settings of {cls.__name__}: {sorted(unknown)}")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in names or settings:
        if name in without:
            continue
        flag = settings[name].flag or name
        if settings[name].often:
            often.add(flag)
        if settings[name].released:
            released[flag] = settings[name].released
        default = defaults.get(name, defaults.get(flag, fields[name].default))
        _define(flag, _kind(fields[name].type), default, settings[name])
    if not names and _text_field(cls):
        text_flags.define()


def _text_field(cls: type) -> str | None:
    """The field that says how text is handled."""
    for field in dataclasses.fields(cls):
        if TextChoice in typing.get_args(field.type):
            return field.name
    return None


def define_changes(
    cls: type,
    *names: str,
    prefix: str = "",
    default: str = "",
    **defaults: Any,
) -> None:
    """Registers flags that change fields of a configuration.

    Without a value the field is as a file, or the class, has it.

    Args:
      default: where the value comes from without the flag, {} for the field's
        name; "" = from the class.
      **defaults: field -> what a new model has, where it is not the field's
        default.
    """
    settings = settings_of(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in names:
        value = defaults.get(name, fields[name].default)
        text = default.format(name) if default else _shown(value)
        more = f" Default: {text}." if text else ""
        one = dataclasses.replace(
            settings[name], help=settings[name].help + more
        )
        _define(prefix + name, _kind(fields[name].type), None, one)


def _shown(value: Any) -> str:
    """A default of a class as a sentence has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == () or value is REQUIRED:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def changes(cls: type, *names: str, prefix: str = "") -> dict[str, Any]:
    """Field -> value of the flags of `define_changes` that have one."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values = {n: _value(prefix + n, fields[n].type) for n in names}
    return {name: v for name, v in values.items() if v is not None}


def _define(flag: str, kind: Any, default: Any, one: Setting) -> None:
    required = {"required": True} if default is REQUIRED else {}
    if required:
        default = None
    if typing.get_origin(kind) is tuple:
        if default is not None:
            default = list(default)
        make = flags.DEFINE_multi_string if one.repeated else flags.DEFINE_list
        make(flag, default, one.help, **required)
    elif one.choices:
        flags.DEFINE_enum(flag, default, one.choices, one.help, **required)
    else:
        _SCALARS[kind](flag, default, one.help, **required)


def _kind(annotation: Any) -> Any:
    """The type without None."""
    parts = [a for a in typing.get_args(annotation) if a is not type(None)]
    is_tuple = typing.get_origin(annotation) is tuple
    return annotation if is_tuple or not parts else parts[0]


def build(cls, **given):
    """Options of a dataclass: every setting that is not given is its flag's.

    Lists become tuples of the field's type; a setting that the command has no
    flag for keeps its default. Raises UserError: a part of a list is no number
    where the field's are.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name, one in settings_of(cls).items():
        flag = one.flag or name
        if name not in given and flag in FLAGS:
            given[name] = _value(flag, fields[name].type)
    text = _text_field(cls)
    if text and text not in given and "text_rule" in FLAGS:
        given[text] = text_flags.from_flags()
    return cls(**given)


def _value(flag: str, annotation: Any) -> Any:
    value = FLAGS[flag].value
    if not isinstance(value, list):
        return value
    kind = typing.get_args(_kind(annotation))[0]
    if kind is int:
        return whole_numbers(flag, value)
    return numbers(flag, value) if kind is float else tuple(value)


def check_followed(
    choice: str, value: str, followers: Mapping[Sequence[str], Sequence[str]]
) -> None:
    """Raises UserError: a flag is given that this choice ignores.

    Args:
      choice: name of the flag that chooses.
      value: what is chosen, by the flag or by a file.
      followers: values of the choice -> flags that no other value follows.
    """
    for values, names in followers.items():
        for name in names:
            given = name in FLAGS and FLAGS[name].present
            follows(given, name, choice, values, value)


def whole_numbers(name: str, value: list[str]) -> tuple[int, ...]:
    """The numbers of a list flag of this name and value."""
    try:
        return tuple(int(number) for number in value if str(number).strip())
    except ValueError as e:
        raise UserError(
            f"--{name} must be whole numbers, received {','.join(value)!r}"
        ) from e


def numbers(flag: str, values: list[str]) -> tuple[float, ...]:
    """The numbers of a list flag."""
    try:
        return tuple(map(float, values))
    except ValueError as e:
        raise UserError(
            f"--{flag} must be numbers, received {','.join(values)!r}"
        ) from e
