"""A SentencePiece file with the text settings that belong to it.

The settings stand in the file itself (`common.vocabularies.vocabulary_field`), so that they
cannot be lost.
Files made elsewhere have none. Beside them `NAME.json` of `NAME.model` (as the
trainer writes it, and every command that copies a vocabulary) or Hugging Face's
`tokenizer_config.json` may say it. If nothing does, the original's rule holds.
"""

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from common import files
from common.errors import UserError
from common.vocabularies import (
    added_tokens,
    frames,
    released_vocabulary,
    unigram_rules,
    vocabulary_field,
)
from common.vocabularies import text_settings as settings_lib
from common.vocabularies.released_vocabulary import is_released
from common.vocabularies.text_settings import TextChoice, TextSettings

FILE_NAME = "spiece.model"
# Tokenizers of released weights have rules of their own, inside.
RELEASED_NAME = released_vocabulary.JSON_NAME
# What a model's folder may hold, the first that is there counts.
FILE_NAMES = (
    FILE_NAME,
    RELEASED_NAME,
    released_vocabulary.VOCAB_NAME,
    released_vocabulary.BPE_NAME,
)
HF_CONFIG = "tokenizer_config.json"
# Words, characters or bytes of a left-to-right model.
SYMBOLS_NAME = "vocabulary.json"
_NO_RULES = "PreTrainedTokenizerFast"  # the class that reads a file as it is
_CLASS = "tokenizer_class"
_MODEL = "config.json"
# Of any file here; the largest known vocabularies have about 35 MiB.
MAX_BYTES = 1 << 26


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A SentencePiece file as it was read."""

    path: str
    # all its bytes; of released files the `tokenizer.json` that they stand for
    content: bytes
    sha256: str
    recorded: TextSettings | None  # the stored text settings; None = nowhere
    source: str  # where they are stored: "in the file", a file's name, or ""
    # of released files `tokenizer_config.json` with the older ones beside it
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def resolve(
        self, said: TextChoice | TextSettings | None = None
    ) -> TextSettings:
        """The text settings to use; see `text_settings.resolve`."""
        where = f"{self.path} ({self.source})" if self.source else self.path
        return settings_lib.resolve(said, self.recorded, where)

    def require(self, sha256: str, where: str) -> None:
        """Raises UserError unless this is the file that `where` names."""
        if self.sha256 != sha256:
            raise UserError(
                f"{self.path} is another vocabulary than the one of {where}: "
                f"wanted spiece_sha256 {sha256}, found {self.sha256}; give "
                "the file that was used there"
            )

    def describe(self, settings: TextSettings) -> str:
        """One line for a start-up summary."""
        if is_released(self.path):
            return f"{self.path}, its own rules, {self.sha256[:12]}"
        source = (
            f"recorded {self.source}"
            if self.source != "in the file"
            else ("recorded in the vocabulary")
        )
        if self.recorded is None:
            source = (
                "nothing is recorded with the vocabulary: the original's rule "
                "where no flag says otherwise"
            )
        return f"{settings} ({source}), vocabulary {self.sha256[:12]}"


def copy_name(path: str) -> str:
    """What a copy of a vocabulary file is called."""
    return RELEASED_NAME if is_released(path) else FILE_NAME


def check_rows(path: str, pieces: int, rows: int, where: str) -> None:
    """Raises UserError unless a vocabulary fits an embedding table.

    Released weights may have more rows than pieces. `path` "" = not known.
    """
    if pieces == rows or (is_released(path) and pieces < rows):
        return
    raise UserError(
        f"{path or 'the vocabulary'} has {pieces} pieces, {where} is of a "
        f"vocabulary of {rows}: "
        "give the file that the model was trained with"
    )


def find(*folders: str) -> str | None:
    """The vocabulary file of the first folder that holds one, else None."""
    for folder in folders:
        paths = [os.path.join(folder, name) for name in FILE_NAMES]
        paths = [path for path in paths if files.exists(path)]
        # Of ALBERT's two files the one in which the rules stand.
        if len(paths) > 1 and is_released(paths[0]):
            paths.sort(key=lambda path: path.endswith(".model"))
        if paths:
            return paths[0]
    return None


def find_or_refuse(*folders: str) -> str:
    """`find`; UserError where no folder holds a vocabulary."""
    path = find(*folders)
    if path is None:
        raise UserError(
            f"{' and '.join(folders) or '.'}: wanted a vocabulary, one of "
            f"{', '.join(FILE_NAMES)}, found none; give --spiece_model_file, "
            "the file that the model was trained with"
        )
    return path


def read(path: str) -> Vocabulary:
    """Reads a SentencePiece file and what is stored about it.

    Raises UserError: it cannot be read, is damaged, is not the file that the
    one beside it describes, or the two say different settings.
    """
    content = _read_bytes(path)
    if not content:
        raise UserError(f"{path} is empty: wanted a SentencePiece model")
    digest = hashlib.sha256(content).hexdigest()
    if is_released(path):
        folder = os.path.dirname(path)
        config = added_tokens.of_folder(folder, rules_of(folder))
        merges = _maybe(os.path.join(folder, released_vocabulary.MERGES_NAME))
        rows = (_json_object(os.path.join(folder, _MODEL)) or {}).get(
            "vocab_size"
        )
        content = released_vocabulary.as_json(
            path, content, config, merges, rows if type(rows) is int else None
        )
        digest = hashlib.sha256(content).hexdigest()
        return Vocabulary(path, content, digest, None, "", config)
    settings_files = [
        (settings, source)
        for settings, source in (
            (vocabulary_field.embedded(content, path), "in the file"),
            (_beside(path, digest), f"in {os.path.basename(sidecar(path))}"),
        )
        if settings is not None
    ]
    if (
        len(settings_files) == 2
        and settings_files[0][0] != settings_files[1][0]
    ):
        raise UserError(
            f"{path} and {sidecar(path)} say different text settings: wanted "
            f"{settings_files[0][0]}, found {settings_files[1][0]}; remove the second file"
        )
    if not settings_files:
        theirs = _hugging_face(path)
        settings_files = [(theirs, f"in {HF_CONFIG}" if theirs else "")]
    return Vocabulary(path, content, digest, *settings_files[0])


def sidecar(path: str) -> str:
    """The name of the file that describes a vocabulary: NAME.json."""
    return path.removesuffix(".model") + ".json"


# --- Beside the file ----------------------------------------------------------


def copy(vocabulary: Vocabulary, settings: TextSettings, folder: str) -> str:
    """Writes `spiece.model` and `spiece.json`, or `tokenizer.json`.

    The latter may need a `tokenizer_config.json`, to be read again as it is.
    Nothing is written where the same is there already. `settings` are resolved.
    """
    path = os.path.join(folder, copy_name(vocabulary.path))
    # The vocabulary comes last: readers take the folder for whole then.
    if is_released(vocabulary.path):
        config = os.path.join(folder, HF_CONFIG)
        about = _needed_beside(vocabulary)
        if about and not files.exists(config):
            files.write_json(config, {_CLASS: _NO_RULES} | about)
    else:
        about = {
            "model_sha256": vocabulary.sha256,
            "text_settings": settings.as_dict(),
        }
        if _json_object(sidecar(path)) != about:
            files.write_json(sidecar(path), about)
    if _maybe(path) != vocabulary.content:
        with files.atomic_open(path) as f:
            f.write(vocabulary.content)
    return path


def _needed_beside(vocabulary: Vocabulary) -> dict[str, Any]:
    """What a copy of a `tokenizer.json` is read with, {} where it is enough."""
    try:
        rules = json.loads(vocabulary.content)
        about = frames.declared_alone(rules, vocabulary.about)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        about = {}  # whoever reads it says what is wrong
    # Beside a model's configuration alone it gets the rules of its kind.
    if unigram_rules.takes_class(vocabulary.content):
        about = {_CLASS: _NO_RULES} | about
    return about


def _beside(path: str, digest: str) -> TextSettings | None:
    """What NAME.json says, if it is about a vocabulary."""
    name = sidecar(path)
    about = _json_object(name)
    if not about or "model_sha256" not in about:
        return None
    if about["model_sha256"] != digest:
        raise UserError(
            f"{path} is not the file that {name} describes: wanted SHA-256 "
            f"{about['model_sha256']}, found {digest}; it was replaced or is "
            "damaged: restore it, or remove the .json if the file is right"
        )
    if "text_settings" in about:
        return TextSettings.from_dict(about["text_settings"], name)
    if "keep_accents" in about or "uncased" in about:
        return TextSettings.from_flags(
            about.get("uncased", False), about.get("keep_accents", False)
        )
    return None


def rules_of(folder: str) -> dict:
    """`tokenizer_config.json` of a folder, {} without one.

    Its class may stand in the `config.json` beside it. UserError if damaged:
    without its rules texts would be cut otherwise than the model was trained.
    """
    path = os.path.join(folder, HF_CONFIG)
    rules = {}
    if files.exists(path):
        rules = files.read_json_object(path, "copy the folder again")
    beside = _json_object(os.path.join(folder, _MODEL)) or {}
    kind = rules.get(_CLASS) or beside.get(_CLASS)
    return rules | {_CLASS: kind} if kind else rules


def check_cut(folder: str, otherwise: str) -> None:
    """UserError: long texts lose their beginning, which is not done here."""
    side = rules_of(folder).get("truncation_side")
    if side not in (None, "right"):
        raise UserError(
            f"{os.path.join(folder, HF_CONFIG)}: truncation_side: wanted right, "
            f"found {str(side)[:20]!r}: the end of a long text would be read, "
            f"here its beginning is; {otherwise}"
        )


def _hugging_face(path: str) -> TextSettings | None:
    """The settings that `tokenizer_config.json` in the same folder has."""
    config = rules_of(os.path.dirname(path))
    names = ("do_lower_case", "keep_accents", "remove_space")
    kind = str(config.get(_CLASS, "XLNet"))
    # The second is what we write.
    known = kind.startswith(("XLNet", "PreTrainedTokenizerFast"))
    if not known or not set(names) & set(config):
        return None
    settings = TextSettings.from_flags(
        config.get("do_lower_case", False), config.get("keep_accents", False)
    )
    space = bool(config.get("remove_space", True))
    return dataclasses.replace(settings, remove_space=space)


# --- Models that were trained with it -----------------------------------------


def settle(
    vocabulary: Vocabulary,
    said: TextChoice | TextSettings | None,
    *folders: str,
) -> TextSettings:
    """The text settings of a vocabulary that models were trained with.

    Of the models' folders see `trained_with`. Raises UserError: a model is of
    another vocabulary or of other text settings.
    """
    known = []
    for folder in folders:
        for name, sha256, recorded in trained_with(folder):
            where = os.path.join(folder, name)
            vocabulary.require(sha256, where)
            if recorded is not None:
                known.append((recorded, where))
            elif theirs := _hugging_face(where):
                known.append((theirs, os.path.join(folder, HF_CONFIG)))
    if vocabulary.recorded is None and known:
        settings = settings_lib.resolve(said, *known[0])
    else:
        settings = vocabulary.resolve(said)
    for recorded, where in known:
        settings_lib.resolve(settings, recorded, where)
    return settings


def trained_with(
    folder: str,
) -> list[tuple[str, str, TextSettings | None]]:
    """What a folder's `task.json`, `run.json`, `spiece.json` and model say.

    (file, SHA-256 of the vocabulary, text settings or None) of each.
    """
    records: list[tuple[str, str, TextSettings | None]] = []
    task = _json_object(os.path.join(folder, "task.json")) or {}
    run = _json_object(os.path.join(folder, "run.json")) or {}
    run = run.get("must_match") or {}
    copied = _json_object(os.path.join(folder, "spiece.json")) or {}
    if not isinstance(run, dict):
        run = {}
    for name, sha256, text in (
        ("task.json", task.get("spiece_sha256"), _text_of_task(task)),
        (
            "run.json",
            run.get("vocabulary") or run.get("spiece_sha256"),
            run.get("text_settings"),
        ),
        (
            "spiece.json",
            copied.get("model_sha256"),
            copied.get("text_settings"),
        ),
    ):
        if sha256:
            where = os.path.join(folder, name)
            settings = text and TextSettings.from_dict(text, where)
            records.append((name, str(sha256), settings or None))
    path = os.path.join(folder, FILE_NAME)
    content = _maybe(path)
    if content is not None and not is_released(path):
        digest = hashlib.sha256(content).hexdigest()
        records.append((FILE_NAME, digest, None))
    return records


def _text_of_task(task: dict) -> Any:
    """The settings in task.json of either format."""
    if "uncased" in task:
        return TextSettings(uncased=bool(task["uncased"])).as_dict()
    return task.get("text")


# --- Files --------------------------------------------------------------------


def _read_bytes(path: str) -> bytes:
    try:
        content = _maybe(path)
    except OSError as e:
        raise UserError(
            f"--spiece_model_file={path} cannot be read: {e.strerror or e}"
        ) from e
    if content is None:
        raise UserError(
            f"--spiece_model_file={path} does not exist; make one with "
            "`python -m data.train_sentencepiece`"
        )
    return content


def _maybe(path: str) -> bytes | None:
    """A file's bytes, None without it; UserError if they are too many."""
    try:
        content = files.read_bytes(path, MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > MAX_BYTES:
        raise UserError(
            f"{path}: wanted a vocabulary of at most {MAX_BYTES >> 20} MiB, "
            "found more; give another file"
        )
    return content


def _json_object(path: str) -> dict | None:
    """A JSON object, None where there is none."""
    try:
        value = json.loads(_maybe(path) or b"null")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
