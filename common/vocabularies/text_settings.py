"""How text is handled before SentencePiece sees it.

These settings belong to a vocabulary: they are stored with it
(`common.vocabularies.vocabulary`) and read from there by everything that cuts text into
pieces. A flag can only agree with them, or say them where nothing is stored.
"""

import dataclasses
import hashlib
import json
from typing import Any

from common.errors import UserError

# What the original does: NFKD, then every combining mark is dropped. Released
# weights need it; it takes the voicing marks of kana, the vowel-killer of
# Devanagari, Thai tones and the breve of the Cyrillic short i away.
ORIGINAL = "original"
# Composed characters (NFKC) with all their marks, put together by the
# vocabulary's own SentencePiece rules.
COMPOSED = "composed"
RULES = (ORIGINAL, COMPOSED)
# Goes up when a rule comes to give other text.
VERSION = 1


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """The settings of a vocabulary, all of them known."""

    rule: str = ORIGINAL  # one of `RULES`
    uncased: bool = False
    remove_space: bool = True  # text is stripped, white space collapsed
    version: int = VERSION

    @property
    def keep_accents(self) -> bool:
        """Whether combining marks stay; the original's name for it."""
        return self.rule != ORIGINAL

    @property
    def sha256(self) -> str:
        """Hex digest of the settings."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """For JSON files; `from_dict` reads it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: Any, where: str) -> "TextSettings":
        """Reads what `as_dict` gave.

        Raises UserError: a field is missing, unknown or of another type; a rule
        or a version that this code does not know.
        """
        wanted = {f.name: f.type for f in dataclasses.fields(cls)}
        if not isinstance(value, dict) or set(value) != set(wanted):
            raise UserError(
                f"{where}: wanted text settings with the fields "
                f"{sorted(wanted)}, found {value!r}; restore the file"
            )
        wrong = [k for k, kind in wanted.items() if type(value[k]) is not kind]
        if wrong or value["rule"] not in RULES or value["version"] != VERSION:
            raise UserError(
                f"{where}: wanted text settings with a rule of "
                f"{', '.join(RULES)}, true or false, and version {VERSION}, "
                f"found {value}; restore the file or use the version of this "
                "project that wrote it"
            )
        return cls(**value)

    @classmethod
    def from_flags(cls, uncased: bool, keep_accents: bool) -> "TextSettings":
        """Of files that store the original's two flags."""
        return cls(COMPOSED if keep_accents else ORIGINAL, bool(uncased))

    def __str__(self) -> str:
        case = "lower-cased" if self.uncased else "cased"
        space = "" if self.remove_space else ", white space kept"
        return f"rule {self.rule}, {case}{space}"


@dataclasses.dataclass(frozen=True)
class TextChoice:
    """What a user said about them; None = nothing."""

    rule: str | None = None
    uncased: bool | None = None
    remove_space: bool | None = None

    def __post_init__(self) -> None:
        if self.rule is not None and self.rule not in RULES:
            raise UserError(
                f"--text_rule must be one of {', '.join(RULES)}, received "
                f"{self.rule!r}"
            )

    def complete(self, default: TextSettings) -> TextSettings:
        """`default` with what was said."""
        said = {k: v for k, v in vars(self).items() if v is not None}
        return dataclasses.replace(default, **said)


def choose(
    rule: str | None = None,
    uncased: bool | None = None,
    keep_accents: bool | None = None,
) -> TextChoice:
    """The choice that flags say, where two of them can say the same.

    Raises UserError: unknown rule, or `keep_accents` contradicts it.
    """
    if keep_accents is not None:
        same = COMPOSED if keep_accents else ORIGINAL
        if rule is not None and rule != same:
            no = "" if keep_accents else "no"
            raise UserError(
                f"--text_rule={rule} and --{no}keep_accents contradict each "
                f"other: --{no}keep_accents is --text_rule={same}; give one"
            )
        rule = same
    return TextChoice(rule, uncased)


def resolve(
    said: TextChoice | TextSettings | None,
    recorded: TextSettings | None,
    where: str,
) -> TextSettings:
    """The record; without one the original's rule with what was said.

    Args:
      said: by flags or by what was made with the vocabulary.
      recorded: stored with the vocabulary; None = nothing is.
      where: the vocabulary's path, and where its record stands.

    Raises:
      UserError: something was said that differs from the record.
    """
    if recorded is None:
        if isinstance(said, TextSettings):
            return said
        return (said or TextChoice()).complete(TextSettings())
    wrong = [
        f"`{_FLAGS.get(name, name)}` wanted {value}, found "
        f"{getattr(recorded, name)}"
        for name, value in vars(said or TextChoice()).items()
        if value is not None and value != getattr(recorded, name)
    ]
    if wrong:
        raise UserError(
            f"{where} is of other text settings: {'; '.join(wrong)}; leave "
            "the flags out to take the vocabulary's, or use another vocabulary"
        )
    return recorded


_FLAGS = {"rule": "text_rule"}
