"""The version that is served; a newer one takes over while requests run.

Each version has lanes of its own. A request keeps the version that it began
with; the lanes of one whose last request has been answered are stopped.
"""

import asyncio
import contextlib
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator

import numpy as np
import tensorflow as tf

from common.errors import UserError
from serving.saved_model import SavedModel, Stop, versions_below
from serving.web.cost import Budget, free_bytes, model_size
from serving.web.forms.requests import Request
from serving.web.lanes import Runs
from serving.web.scheduler import Scheduler
from serving.web.workers import beside

_LOG = logging.getLogger("serving")
_DRAIN_SECONDS = 0.05
Load = Callable[[str], SavedModel]


class Version:
    """Checked rows in, the rows of an answer out; needs a running event loop."""

    def __init__(self, model: SavedModel, scheduler: Scheduler):
        self.model = model
        self.leases = 0
        self._budget = Budget(
            model.description,
            model_size(model.description, model.variable_shapes),
            scheduler.options,
            free_bytes(),
        )
        most, row = self._budget.max_tokens, self._budget.row_tokens
        self.lanes = scheduler.open_lanes(Runs(self._run, most, row))

    async def answer(self, request: Request, alone: bool) -> list[dict]:
        """Output name -> array or value, of every row.

        Raises UserError: a bound, or what the model does not take; Overloaded.
        """
        name, rows = request.signature, request.rows
        shared = bool(self._shared(name))
        # Tokens of such rows are drawn by their places in the run: slices, which
        # come and go with other requests, would draw others.
        whole = shared and "input_ids" in rows[0]
        work = self._budget.check(name, rows, whole)
        alone = alone and self._pads(name) or shared
        try:
            return await self.lanes.submit(
                name, rows, work.tokens, work.weight, alone, whole
            )
        except (tf.errors.InvalidArgumentError, ValueError, TypeError) as e:
            raise UserError(
                "the model refused these values: check ids and shapes; of each "
                "text the vocabulary must have a symbol"
            ) from e

    def _shared(self, signature: str) -> list[str]:
        """Inputs that are one value for all rows of a run."""
        inputs = self.model.description["signatures"][signature]["inputs"]
        return [name for name, spec in inputs.items() if not spec["shape"]]

    def _pads(self, signature: str) -> bool:
        """Whether texts decide the shapes of outputs."""
        spec = self.model.description["signatures"][signature]
        return any(
            value["dtype"] == "string" for value in spec["inputs"].values()
        ) and any(None in v["shape"][1:] for v in spec["outputs"].values())

    def _run(self, signature: str, rows: list[dict], stop: Stop) -> list[dict]:
        """Runs in a lane's thread."""
        shared = self._shared(signature)
        batch = {
            name: rows[0][name] if name in shared else _column(rows, name)
            for name in rows[0]
        }
        outputs = {
            name: np.asarray(value)
            for name, value in self.model(batch, signature, stop).items()
        }
        return [
            {name: value[i] for name, value in outputs.items()}
            for i in range(len(rows))
        ]


class Versions:
    """The versions of a server.

    Args:
      scheduler: runs them; `poll_s` of its options above 0 = look for newer
        versions so often.
      load: version folder -> a model that has been warmed up; called in a
        thread. None = no other version is looked for.

    Attributes:
      current: the version that is served now, while `run`.
    """

    def __init__(
        self, model: SavedModel, scheduler: Scheduler, load: Load | None = None
    ):
        self._first: SavedModel | None = model
        self._scheduler = scheduler
        self._load = load
        self._skipped: dict[str, tuple] = {}

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serves and, if that is asked for, looks for newer versions."""
        async with self._scheduler.running():
            self.current = Version(self._first, self._scheduler)
            self._first = None  # else it stays when a newer version is served
            async with beside(self._poll()):
                yield

    @contextlib.contextmanager
    def lease(self) -> Iterator[Version]:
        """The version for one request, which is not stopped meanwhile."""
        version = self.current
        version.leases += 1
        try:
            yield version
        finally:
            version.leases -= 1

    async def _poll(self) -> None:
        seconds = self._scheduler.options.poll_s if self._load else 0.0
        while seconds and not self._scheduler.draining:
            await asyncio.sleep(seconds)
            try:
                await self.look()
            except Exception:  # the version that is served stays
                _LOG.exception("looking for a newer version failed")

    async def look(self) -> bool:
        """Loads the newest version that can be; whether there was one."""
        served = self.current.model
        # `normpath` would make "" of the folder at hand, and break `gs://`.
        parent = os.path.dirname(served.version_dir)
        numbers = await asyncio.to_thread(versions_below, parent)
        for number in sorted(numbers, reverse=True):
            if number <= int(served.version):
                return False
            path = os.path.join(parent, str(number))
            state = await asyncio.to_thread(_state, path)
            if self._skipped.get(path) == state:
                continue  # nothing has changed since it was skipped
            try:
                model = await asyncio.to_thread(self._load, path)
            except (UserError, OSError, tf.errors.OpError) as e:
                self._skipped[path] = state
                _LOG.warning(
                    "version %s is skipped, version %s stays: %s",
                    number,
                    served.version,
                    " ".join(str(e).split()),
                )
                continue
            old, self.current = self.current, Version(model, self._scheduler)
            _LOG.warning(
                "version %s is served; version %s ends with its last request",
                model.version,
                served.version,
            )
            asyncio.create_task(self._end(old))
            return True
        return False

    async def _end(self, old: Version) -> None:
        lanes = old.lanes
        while old.leases or lanes.working:
            await asyncio.sleep(_DRAIN_SECONDS)
        await self._scheduler.close_lanes(lanes)
        await asyncio.sleep(_DRAIN_SECONDS)  # tasks and threads let it go
        del old, lanes
        if gc.get_freeze_count():  # else what it loaded stays for ever
            gc.unfreeze()
            spare_the_collector()


def spare_the_collector() -> None:
    """What exists now is not looked at again by Python's garbage collector.

    TensorFlow and a model are half a million objects; beside many requests
    each of its full rounds would stop the server for a good part of a second.
    """
    gc.collect()
    gc.freeze()


def _column(rows: list[dict], name: str):
    """The rows of an input: texts as lists, numbers as one array."""
    values = [row[name] for row in rows]
    return np.stack(values) if isinstance(values[0], np.ndarray) else values


def _state(folder: str) -> tuple:
    """Names, sizes and times of all files of a folder."""
    state = []
    for folder_below, _, names in tf.io.gfile.walk(folder):
        for name in names:
            path = os.path.join(folder_below, name)
            with contextlib.suppress(tf.errors.OpError):
                about = tf.io.gfile.stat(path)
                state.append((path, about.length, about.mtime_nsec))
    return tuple(sorted(state))
