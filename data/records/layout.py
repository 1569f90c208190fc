"""What a kind of records brings to the factory.

The factory (`build`, ...) knows text in blocks, workers, resume, records of equal
size and files. A *layout* knows what the records hold: it turns blocks of text
into records and their manifest.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from data.corpus.documents import Block
from data.records.manifest import Manifest
from data.records.options import FactoryOptions


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all workers of a build share."""

    blocks: tuple[tuple[Block, ...], ...]

    def suffix(self, block: int) -> str:
        """What a block's records depend on beside text and options; "" = no
        more. Stands behind the SHA-256 of its text."""
        del block
        return ""


class BuildLayout(abc.ABC):
    """One build of one kind of records.

    Attributes:
      block_builder: class whose objects build blocks in workers, made of
        `options` and the plan (`block_builder.BlockBuilder`).
    """

    options: FactoryOptions
    paths: Sequence[str]
    block_builder: ClassVar[type]

    @abc.abstractmethod
    def text_line(self) -> str:
        """How text is handled, for the log."""

    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a folder belongs to besides its input files: JSON values."""

    @abc.abstractmethod
    def plan_blocks(self) -> list[tuple[Block, ...]]:
        """The parts of all blocks.

        Raises:
          UserError: there is no text at all.
        """

    @abc.abstractmethod
    def make_plan(
        self,
        blocks: Sequence[tuple[Block, ...]],
        stored: dict[str, Any],
        save: Callable[[], None],
        log: Callable[[str], None],
    ) -> Plan:
        """Goes on with a plan or makes one.

        Args:
          stored: what `plan.json` holds; what is to be kept is added here.
        """

    @abc.abstractmethod
    def tokens(self, summaries: Sequence[dict]) -> int:
        """Tokens of finished blocks, for the log."""

    @abc.abstractmethod
    def check(self, summaries: Sequence[dict]) -> None:
        """Looks at all blocks before a manifest is made.

        Raises:
          UserError: nothing can be done with this text.
        """

    @abc.abstractmethod
    def make_manifest(
        self, plan: Plan, summaries: Sequence[dict], text_sha256: tuple
    ) -> Manifest:
        """The manifest of finished blocks."""

    @abc.abstractmethod
    def finish(self, manifest: Manifest, log) -> Manifest:
        """Writes what lies beside the records; says what was built.

        Returns:
          The manifest to be written, with all files that are to be kept.
        """

    @abc.abstractmethod
    def load(self) -> Manifest:
        """The finished manifest of the output folder."""
