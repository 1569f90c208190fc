"""Vale's rules of `scripts/pages/vale`, read without Vale.

Two kinds: `existence` with `tokens`, `substitution` with `swap`. Both hold
regular expressions that must not occur in the text of a page.
"""

import re

from tests.conftest import ROOT

FOLDER = ROOT / "scripts/pages/vale/styles/XLNet"
_ITEM = re.compile(r"^  - (.+)$", re.M)
_SWAP = re.compile(r"^  ([^-\s].*?): (.+)$", re.M)


def patterns(rule: str) -> list[re.Pattern]:
    """Of the file of a rule, "Private"; as Vale reads them."""
    text = (FOLDER / f"{rule}.yml").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    flags = re.IGNORECASE if "ignorecase: true" in text else 0
    if "extends: substitution" in text:
        found = [left for left, _ in _SWAP.findall(text)]
    else:
        found = _ITEM.findall(text)
    found = [token.strip("'") for token in found]
    if "nonword: true" not in text:
        found = [rf"\b(?:{token})\b" for token in found]
    return [re.compile(token, flags) for token in found]


def rules() -> list[str]:
    """Names of all."""
    return sorted(path.stem for path in FOLDER.glob("*.yml"))


def prose(page: str) -> str:
    """The text of a page without code, on one line; links are their texts."""
    page = re.sub(r"```.*?```", "", page, flags=re.S)
    page = re.sub(r"^    .*$", "", page, flags=re.M)
    page = re.sub(r"`[^`]*`", "CODE", page)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    return " ".join(page.split())


def found_in(text: str, names: list[str]) -> list[str]:
    """The words of a text that rules leave out."""
    return [
        match[0]
        for name in names
        for pattern in patterns(name)
        for match in pattern.finditer(text)
    ]
