"""Models by their name on Hugging Face's hub -> a local folder.

`hf://ORG/NAME`, `hf://ORG/NAME@REVISION` and the names in `RELEASED` are
fetched with the package `huggingface_hub`: its cache (`HF_HOME`), its ways with a
connection that breaks off, its offline mode (`HF_HUB_OFFLINE=1`), `HF_ENDPOINT`
and `HF_TOKEN`. Only files that this project reads are fetched.

`local` is the one place where such a name becomes a path.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence

from common import optional
from common.errors import UserError
from common.weights.released_weights import FORMS

SCHEME = "hf://"
# Models under a name of their own; a local path of that name goes first.
RELEASED = {
    "xlnet-base-cased": "xlnet/xlnet-base-cased",
    "xlnet-large-cased": "xlnet/xlnet-large-cased",
    "bert-base-uncased": "google-bert/bert-base-uncased",
    "bert-base-cased": "google-bert/bert-base-cased",
    "bert-large-uncased": "google-bert/bert-large-uncased",
    "bert-large-cased": "google-bert/bert-large-cased",
    "bert-base-multilingual-cased": "google-bert/bert-base-multilingual-cased",
    "albert-base-v1": "albert/albert-base-v1",
    "albert-large-v1": "albert/albert-large-v1",
    "albert-xlarge-v1": "albert/albert-xlarge-v1",
    "albert-xxlarge-v1": "albert/albert-xxlarge-v1",
    "albert-base-v2": "albert/albert-base-v2",
    "albert-large-v2": "albert/albert-large-v2",
    "albert-xlarge-v2": "albert/albert-xlarge-v2",
    "albert-xxlarge-v2": "albert/albert-xxlarge-v2",
    "answerdotai/ModernBERT-base": "answerdotai/ModernBERT-base",
    "answerdotai/ModernBERT-large": "answerdotai/ModernBERT-large",
}
CONFIG = "config.json"
# How sentence vectors are made.
SENTENCES = re.compile(
    r"modules\.json|sentence_[a-z-]+_config\.json|\d+_\w+/config\.json"
    r"|config_sentence_transformers\.json"
)
# Beside the weights: these, and tokenizers.
_BESIDE = re.compile(
    r"spiece\.model|tokenizer\.json|vocab\.(txt|json)|merges\.txt"
    r"|tokenizer_config\.json|special_tokens_map\.json|added_tokens\.json"
    rf"|{SENTENCES.pattern}"
)
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_NAME = re.compile(
    rf"{re.escape(SCHEME)}(?P<repository>{_PART}(/{_PART})?)"
    r"(@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]*))?"
)
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/([0-9a-f]{40})(/|$)")


def is_name(path: str) -> bool:
    """Whether `local` would look for a path on the hub."""
    if path.startswith(SCHEME):
        return True
    return path in RELEASED and not os.path.exists(path)


def local(path: str, weights: bool = True) -> str:
    """The folder of a model of the hub, fetched if need be; other paths stay.

    Args:
      path: `hf://ORG/NAME[@REVISION]`, a key of `RELEASED`, or any path.
      weights: fetch the weights, too, in the first of `FORMS` that is there;
        else the configuration and the tokenizer alone.

    Raises:
      UserError: the package is missing, the name is none, there is no such
        repository or revision, it cannot be reached and is not in the cache,
        or it holds no weights.
    """
    path = os.fspath(path)
    if not is_name(path):
        return path
    name = path if path.startswith(SCHEME) else SCHEME + RELEASED[path]
    match = _NAME.fullmatch(name)
    if not match:
        raise UserError(f"{path}: wanted {SCHEME}ORG/NAME or .../NAME@REVISION")
    repository, revision = match["repository"], match["revision"] or "main"
    hub = _package(path)
    with _as_lines(hub, f"{SCHEME}{repository}", revision):
        config = hub.hf_hub_download(repository, CONFIG, revision=revision)
        folder = os.path.dirname(config)
        commit = os.path.basename(folder)
        wanted = _listed(hub, repository, commit, folder, weights)
        for file in wanted:
            hub.hf_hub_download(repository, file, revision=commit)
    return folder


def origin(path: str) -> str:
    """`hf://ORG/NAME@COMMIT` of a path in the hub's cache, "" of others."""
    match = _SNAPSHOT.search(path)
    if match is None:
        return ""
    repository = match[1].replace("--", "/", 1)
    return f"{SCHEME}{repository}@{match[2]}"


def _package(path: str):
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as e:
        raise UserError(
            f"{path} needs the package huggingface_hub: "
            f"{optional.cure('requirements-hub.txt')}, or give a folder"
        ) from e
    huggingface_hub.utils.logging.set_verbosity_error()
    return huggingface_hub


def _listed(
    hub, repository: str, commit: str, folder: str, weights: bool
) -> list[str]:
    """Files of a commit that are read, the weights last.

    They are fetched in this order: where we fetched the weights, all else is.
    Other programs share the cache, and may have fetched the weights alone.
    """
    try:
        info = hub.HfApi().model_info(repository, revision=commit)
    except Exception as e:
        away = isinstance(e, _away())
        if away and (_complete(folder) or not weights):
            return []
        if away:
            raise hub.errors.LocalEntryNotFoundError("") from e
        raise
    names = sorted(sibling.rfilename for sibling in info.siblings or ())
    wanted = [name for name in names if _BESIDE.fullmatch(name)]
    if not weights:
        return wanted
    form = next((form for form in FORMS if form in names), None)
    if form is None:
        raise UserError(
            f"{SCHEME}{repository}@{commit[:12]} holds no weights: wanted one "
            f"of {', '.join(FORMS)}, found {', '.join(names[:8]) or 'nothing'}"
        )
    if form.endswith(".json"):
        path = hub.hf_hub_download(repository, form, revision=commit)
        wanted += [name for name in _shards(path) if name in names]
    return [*wanted, form]


def _complete(folder: str) -> bool:
    """Whether the weights lie in a folder of the cache, all shards."""
    for form in FORMS:
        path = os.path.join(folder, form)
        if os.path.exists(path):
            shards = _shards(path) if form.endswith(".json") else ()
            return all(os.path.exists(os.path.join(folder, s)) for s in shards)
    return False


def _shards(index: str) -> Sequence[str]:
    """The files that an index names; () where it is damaged.

    What is wrong with it is said by its reader.
    """
    try:
        with open(index, encoding="utf-8") as f:
            places = json.load(f)["weight_map"]
        return sorted(set(map(str, places.values())))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _away() -> tuple[type[Exception], ...]:
    """What says that the hub was not reached."""
    import httpx2

    return httpx2.TransportError, ConnectionError


@contextlib.contextmanager
def _as_lines(hub, name: str, revision: str) -> Iterator[None]:
    """The package's errors as one line each."""
    errors = hub.errors
    endpoint = hub.constants.ENDPOINT
    try:
        yield
    except errors.RevisionNotFoundError as e:
        raise UserError(
            f"{name} has no revision {revision!r} at {endpoint}: wanted a "
            "branch, a tag or a commit"
        ) from e
    except errors.GatedRepoError as e:
        raise UserError(
            f"{name} is gated at {endpoint}: ask for access there and set "
            "HF_TOKEN"
        ) from e
    except errors.RepositoryNotFoundError as e:
        raise UserError(
            f"{endpoint} has no model {name}, or it is private: check the "
            "name, or set HF_TOKEN"
        ) from e
    except errors.LocalEntryNotFoundError as e:
        offline = hub.constants.HF_HUB_OFFLINE
        why = "HF_HUB_OFFLINE is set" if offline else "the hub is not reached"
        raise UserError(
            f"{name}@{revision}: {why} ({endpoint}) and its files are not all "
            f"in the cache {hub.constants.HF_HUB_CACHE}: go online once, or "
            "give a folder"
        ) from e
    except errors.EntryNotFoundError as e:
        raise UserError(
            f"{name}@{revision} has no {CONFIG}: wanted a model of an encoder"
        ) from e
    except errors.HfHubHTTPError as e:
        status = getattr(e.response, "status_code", "an error")
        raise UserError(
            f"{name}@{revision}: {endpoint} answered {status}; try again later"
        ) from e
    except (OSError, *_away()) as e:
        what = str(e).split("\n")[0] or type(e).__name__
        raise UserError(
            f"{name}@{revision}: the download from {endpoint} broke off "
            f"({what}); files that were whole stay in the cache: give the "
            "same command again"
        ) from e
