"""What was left out of a corpus, and why."""

import collections
from collections.abc import Iterator

from data.corpus.options import FilterOptions

REASONS = (
    "short",
    "symbols",
    "language",
    "repeated_lines",
    "exact_duplicate",
    "near_duplicate",
    "boilerplate",
)


class Report:
    """Documents and characters by reason, with examples."""

    def __init__(self, options: FilterOptions):
        self._options = options
        self.documents = collections.Counter()
        self.characters = collections.Counter()
        self.examples = collections.defaultdict(list)
        # File -> reason or "kept" -> characters.
        self.by_file = collections.defaultdict(collections.Counter)

    def add(
        self, reason: str, size: int, place: str, detail: str, beginning: str
    ) -> None:
        """Counts a document that is left out."""
        self.documents[reason] += 1
        self.characters[reason] += size
        self.by_file[place.rpartition(": line ")[0]][reason] += size
        if len(self.examples[reason]) < self._options.examples:
            self.examples[reason].append(
                {"place": place, "why": detail, "begins": beginning}
            )

    def keep(self, size: int, path: str) -> None:
        """Counts a document of a file that stays."""
        self.documents["kept"] += 1
        self.characters["kept"] += size
        self.by_file[path]["kept"] += size

    def as_dict(self) -> dict:
        """The content of the report's file."""
        left_out = {
            reason: {
                "documents": self.documents[reason],
                "characters": self.characters[reason],
                "examples": self.examples[reason],
            }
            for reason in REASONS
        }
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._options.identity().items()
        }
        return {
            "options": options,
            "documents": self.documents.total(),
            "characters": self.characters.total(),
            "kept": {
                "documents": self.documents["kept"],
                "characters": self.characters["kept"],
            },
            "left_out": left_out,
        }

    def lines(self, examples: bool) -> Iterator[str]:
        """For the terminal."""
        total = max(self.characters.total(), 1)
        yield f"{'':16}{'documents':>12}{'characters':>16}{'share':>8}"
        for reason in ("kept", *REASONS):
            size = self.characters[reason]
            yield (
                f"{reason:16}{self.documents[reason]:12,}{size:16,}"
                f"{size / total:8.1%}"
            )
            if not examples or reason == "kept":
                continue
            for shown in self.examples[reason]:
                yield f"    {shown['place']}: {shown['why']}"
                yield f"        {shown['begins'][:68]}"
