"""What `data.filter_corpus` measures of a document.

Near-duplicates are found by MinHash (`datasketch`), languages by `py3langid`,
whose model is part of the package: both give the same answer in every run.
Each is imported where it is asked for; `requirements-corpus.txt` pins them.
"""

import functools
import hashlib
import re

import numpy as np

from common import optional
from common.errors import UserError

REQUIREMENTS = "requirements-corpus.txt"
PERMUTATIONS = 128
SHINGLE = 5  # units
# Characters that a language is told from; more do not change the answer.
LANGUAGE_CHARACTERS = 4000

# A unit is what stands between blanks, in scripts without them a character:
# Thai, Lao, Burmese, Khmer, kana, ideographs.
_UNIT = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\s\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff]+"
)


def characters(lines: list[str]) -> int:
    """Length of a document, without line ends."""
    return sum(map(len, lines))


def line_hashes(lines: list[str]) -> np.ndarray:
    """uint64 [number of lines]; white space does not matter."""
    digests = b"".join(
        hashlib.blake2b(" ".join(x.split()).encode(), digest_size=8).digest()
        for x in lines
    )
    return np.frombuffer(digests, "<u8")


def share_in(lines: list[str], chosen: np.ndarray) -> float:
    """Share of the characters that stand in the lines of a bool mask."""
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    return float(sizes[chosen].sum() / max(sizes.sum(), 1))


def repeated_share(lines: list[str], hashes: np.ndarray) -> float:
    """Share of the characters in lines that came before in the document."""
    again = np.ones(len(hashes), bool)
    again[np.unique(hashes, return_index=True)[1]] = False
    return share_in(lines, again)


def signature(lines: list[str]) -> np.ndarray:
    """uint32 [128]: the MinHash of a document's runs of five units."""
    datasketch = _datasketch()
    units = _UNIT.findall("\n".join(lines).lower())
    last = max(1, len(units) - SHINGLE + 1)
    shingles = {" ".join(units[i : i + SHINGLE]) for i in range(last)}
    minhash = datasketch.MinHash(PERMUTATIONS)
    minhash.update_batch([s.encode() for s in sorted(shingles)])
    return minhash.hashvalues


def _datasketch():
    return optional.load("datasketch", "--near_duplicates", REQUIREMENTS)


class NearDuplicates:
    """Finds the first earlier document that is nearly the same.

    Takes about 4 KB for every document that is kept. `threshold` is the least
    share of common shingles (estimated Jaccard index).
    """

    def __init__(self, threshold: float):
        self._datasketch = _datasketch()
        self._threshold = threshold
        self._scheme = self._datasketch.MinHash(PERMUTATIONS).scheme
        self._index = self._datasketch.MinHashLSH(
            threshold=threshold, num_perm=PERMUTATIONS
        )
        self._signatures: dict[int, np.ndarray] = {}

    def find(self, values: np.ndarray) -> tuple[int, float] | None:
        """(number, estimated similarity) of the first near-duplicate."""
        for number in sorted(self._index.query(self._minhash(values))):
            same = float(np.mean(self._signatures[number] == values))
            if same >= self._threshold:
                return number, same
        return None

    def add(self, number: int, values: np.ndarray) -> None:
        """Makes a document known under its number."""
        self._signatures[number] = values
        self._index.insert(
            number, self._minhash(values), check_duplication=False
        )

    def _minhash(self, values):
        return self._datasketch.LeanMinHash(
            seed=1, hashvalues=values, scheme=self._scheme
        )


def language(lines: list[str]) -> str:
    """The code of the most probable language, such as "en"."""
    text = "\n".join(lines)[:LANGUAGE_CHARACTERS]
    return _identifier().classify(text)[0]


def check_languages(codes: tuple[str, ...]) -> None:
    """UserError names codes that the library does not know, and some known."""
    known = set(_identifier().labels)
    unknown = sorted(set(codes) - known)
    if unknown:
        raise UserError(
            f"--languages: unknown {', '.join(unknown)}; wanted codes such as "
            f"{', '.join(sorted(c for c in known if len(c) == 2)[:12])}, ..."
        )


@functools.cache
def _identifier():
    package = optional.load("py3langid", "--languages", REQUIREMENTS)
    module = package.langid
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE)
