"""The version that is served; a newer one takes over while requests run.

Each version has an engine of its own. A request keeps the engine that it began
with; an engine whose last request has been answered is stopped.
"""

import asyncio
import contextlib
import gc
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator

import tensorflow as tf

from common.errors import UserError
from serving.options import ServerOptions
from serving.saved_model import SavedModel, versions_below
from serving.web.engine import Engine
from serving.web.metrics import Metrics

_LOG = logging.getLogger("serving")
_DRAIN_SECONDS = 0.05
Load = Callable[[str], SavedModel]


class Versions:
    """The engines of a server.

    Args:
      model: the version to begin with.
      options: `poll_s` above 0 = look for newer versions so often.
      metrics: shared by all engines.
      load: version folder -> a model that has been warmed up; called in a
        thread. None = no other version is looked for.
    """

    def __init__(
        self,
        model: SavedModel,
        options: ServerOptions,
        metrics: Metrics,
        load: Load | None = None,
    ):
        self.draining = False
        self._first: SavedModel | None = model
        self._options = options
        self._metrics = metrics
        self._load = load
        self._leases: dict[Engine, int] = {}
        self._skipped: dict[str, tuple] = {}

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Starts an engine and, if asked for, looks for newer versions."""
        self._begin(self._first)
        self._first = None  # else it stays when a newer version is served
        poll = None
        if self._load is not None and self._options.poll_s > 0:
            poll = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            if poll is not None:
                poll.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await poll
            for engine in list(self._leases):
                await engine.scheduler.stop()

    def _begin(self, model: SavedModel) -> None:
        engine = Engine(model, self._options, self._metrics)
        self._leases[engine] = 0
        self.current = engine

    @contextlib.contextmanager
    def lease(self) -> Iterator[Engine]:
        """The engine for one request, which is not stopped meanwhile."""
        engine = self.current
        self._leases[engine] += 1
        try:
            yield engine
        finally:
            self._leases[engine] -= 1

    def drain(self) -> None:
        """Says that the server is ending."""
        self.draining = True

    @property
    def working(self) -> bool:
        """Whether a thread still runs a model."""
        return any(engine.scheduler.working for engine in self._leases)

    async def _poll(self) -> None:
        while not self.draining:
            await asyncio.sleep(self._options.poll_s)
            try:
                await self.look()
            except Exception:  # the version that is served stays
                _LOG.exception("looking for a newer version failed")

    async def look(self) -> bool:
        """Loads the newest version that can be; whether there was one."""
        served = self.current.model
        parent = os.path.dirname(os.path.normpath(served.version_dir))
        found = await asyncio.to_thread(versions_below, parent)
        for number in sorted(found, reverse=True):
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
            await self._switch(model)
            return True
        return False

    async def _switch(self, model: SavedModel) -> None:
        old = self.current
        self._begin(model)
        _LOG.warning(
            "version %s is served; version %s ends with its last request",
            model.version,
            old.model.version,
        )
        asyncio.create_task(self._end(old))

    async def _end(self, engine: Engine) -> None:
        scheduler = engine.scheduler
        while self._leases[engine] or scheduler.working:
            await asyncio.sleep(_DRAIN_SECONDS)
        await scheduler.stop()
        del self._leases[engine]
        while not scheduler.ended:  # its threads hold it
            await asyncio.sleep(_DRAIN_SECONDS)
        del engine, scheduler
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


def _state(folder: str) -> tuple:
    """Names, sizes and times of all files of a folder."""
    found = []
    for place, _, names in tf.io.gfile.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with contextlib.suppress(tf.errors.OpError):
                about = tf.io.gfile.stat(path)
                found.append((path, about.length, about.mtime_nsec))
    return tuple(sorted(found))
