"""What a kind of records brings to the factory.

The factory (`build`, `lane_reader`, ...) knows text in blocks, workers, resume,
records of equal size, files and lanes. A *layout* knows what the records hold:
a `BuildLayout` turns blocks of text into records and their manifest, a
`LaneLayout` turns the records of lanes into batches.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from data.corpus.documents import Block
from data.records.manifest import Manifest, RecordFile
from data.records.options import FactoryOptions, LaneOptions
from data.records.record_format import RecordFormat


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


class LaneLayout(abc.ABC):
    """Records of lanes as a reader sees them.

    A lane is `segments` records that follow each other in a file.

    Attributes:
      segments: records of a lane in the split that is read.
      directions: number of directions that have lanes of their own.
    """

    data_dir: str
    format: RecordFormat
    segments: int
    directions: int
    passes: int

    @abc.abstractmethod
    def files(self, direction: int, number: int) -> list[RecordFile]:
        """Files of one direction and pass, in block order."""

    @abc.abstractmethod
    def require_lanes(self, lanes: int) -> None:
        """Raises UserError where a split has no lanes."""

    def read_ahead(self, options: LaneOptions) -> int:
        """Steps to read at once."""
        return options.read_ahead

    @abc.abstractmethod
    def wrong(
        self,
        arrays: dict[str, np.ndarray],
        lane: np.ndarray,
        segment: np.ndarray,
        direction: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """Which records hold what they cannot hold.

        Args:
          arrays: decoded records [rows, steps, ...].
          lane, segment, direction: what stands there, broadcast to
            [rows, steps].

        Returns:
          Words for the mistake -> bool [rows, steps].
        """

    def redraw(
        self,
        row: dict[str, np.ndarray],
        lane: tuple[int, int],
        direction: int,
        first: int,
    ) -> None:
        """Draws again what is drawn at reading, in place; by default nothing.

        Args:
          row: decoded records of one lane [steps, ...].
          lane: (epoch, number of the lane).
          first: segment of the first record.
        """
        del row, lane, direction, first

    @abc.abstractmethod
    def batch(
        self, arrays: dict[str, np.ndarray], real: np.ndarray, first: int
    ) -> dict[str, np.ndarray]:
        """Decoded records -> batches.

        Args:
          arrays: [steps, rows, ...].
          real: bool [rows], False = a row without a lane.
          first: segment of the first step.

        Returns:
          Arrays [steps, rows, ...].
        """
