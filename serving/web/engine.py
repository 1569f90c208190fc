"""A model behind its scheduler: checked rows in, the rows of an answer out."""

import numpy as np
import tensorflow as tf

from common.errors import UserError
from serving.options import ServerOptions
from serving.saved_model import SavedModel, Stop
from serving.web.cost import Budget, free_bytes, model_size
from serving.web.metrics import Metrics
from serving.web.requests import Request
from serving.web.scheduler import Bounds, Scheduler


class Refused(Exception):
    """An answer other than 200: a status and one line."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())


class Engine:
    """One version of the model; needs a running event loop.

    Attributes:
      model: the version.
      scheduler: runs it.
    """

    def __init__(
        self, model: SavedModel, options: ServerOptions, metrics: Metrics
    ):
        self.model = model
        self._budget = Budget(
            model.description,
            model_size(model.description, model.variable_shapes),
            options,
            free_bytes(),
        )
        bounds = Bounds(
            options.max_batch_size,
            self._budget.max_tokens,
            self._budget.row_tokens,
            options.max_wait_ms,
            options.max_queue,
            options.timeout_s,
        )
        self.scheduler = Scheduler(self._run, bounds, metrics.rows.observe)

    async def answer(self, request: Request, alone: bool) -> list[dict]:
        """Output name -> array or value, of every row.

        Args:
          request: checked.
          alone: neighbours must not pad the outputs.

        Raises:
          UserError: a bound, or what the model does not take.
          Overloaded: see `Scheduler.submit`.
        """
        work = self._budget.check(request.signature, request.rows)
        alone = (alone and self._pads(request.signature)) or bool(
            self._shared(request.signature)
        )
        try:
            return await self.scheduler.submit(
                request.signature, request.rows, work.tokens, work.weight, alone
            )
        except (tf.errors.InvalidArgumentError, ValueError, TypeError) as e:
            raise UserError(
                "the model refused these values: check ids and shapes"
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


def _column(rows: list[dict], name: str):
    """The rows of an input: texts as lists, numbers as one array."""
    values = [row[name] for row in rows]
    return np.stack(values) if isinstance(values[0], np.ndarray) else values
