"""What a request costs before it runs: memory of a run, tokens of all runs.

The memory of attention grows with the square of the length, so a request of
50 KB can ask for more memory than a machine has. The estimate comes from the
shapes of the model's variables; it counts the tensors that live at once in
the widest layer, measured on exported models and rounded up.
"""

from collections.abc import Mapping
from typing import NamedTuple

import psutil

from common.errors import UserError
from serving.options import ServerOptions

MASK = "<mask>"
_LARGEST_RUN = 16_384  # tokens: a run should not keep its neighbours waiting
_SHARE = 4  # of the free memory: two lanes run, and something is left
_SCORE_TENSORS = 16  # float [rows, heads, T, T + M] alive at once, two streams
_WINDOWS = 16  # windows of a paragraph that run together
_CHARS_PER_PIECE = 2  # a low guess, so that costs are guessed high


class ModelSize(NamedTuple):
    """Sizes that decide the memory of a run."""

    n_layer: int
    n_head: int
    d_model: int
    d_inner: int
    vocab_size: int

    def run_bytes(self, rows: int, length: int) -> int:
        """Estimated bytes of `rows` sequences of `length` tokens (T + M)."""
        squares = _SCORE_TENSORS * self.n_head * length
        hidden = (12 + 2 * self.n_layer) * self.d_model + 3 * self.d_inner
        return 4 * rows * length * (squares + hidden + 3 * self.vocab_size)


def model_size(
    description: Mapping, shapes: Mapping[str, tuple[int, ...]]
) -> ModelSize | None:
    """Sizes that decide the memory of a run; None for an unknown model.

    Args:
      description: content of `signature.json`, which tells them.
      shapes: of the variables by name; older exports of XLNet have no more.
    """
    sizes = description.get("sizes", {})
    if sizes.keys() == set(ModelSize._fields):
        return ModelSize(**sizes)
    by_end: dict[str, list[tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        key = "/".join(name.split(":")[0].split("/")[-2:])
        by_end.setdefault(key, []).append(tuple(shape))
    heads = by_end.get("rel_attn/q_kernel")
    inner = by_end.get("ff/kernel_1")
    table = by_end.get("word_embedding/lookup_table")
    if not heads or not inner or not table:
        return None
    return ModelSize(
        len(heads), heads[0][1], heads[0][0], inner[0][1], table[0][0]
    )


def free_bytes() -> int:
    """Memory that the process can still take."""
    return psutil.virtual_memory().available


class Work(NamedTuple):
    """What one row asks of the model.

    Attributes:
      tokens: that run at once for it: sequences x (length + memory).
      cost: tokens that pass through the model for it, in all runs.
      chosen: the client chose the length, not the model.
    """

    tokens: int
    cost: int
    chosen: bool


class Budget:
    """How much one run and one request may take.

    Args:
      description: content of `signature.json`.
      size: of the model; None = unknown.
      options: `max_tokens`, 0 = from the free memory; `max_cost`.
      free: bytes that are free.

    Attributes:
      max_tokens: of one run.
    """

    def __init__(
        self,
        description: Mapping,
        size: ModelSize | None,
        options: ServerOptions,
        free: int,
    ):
        self._head = description.get("head", "")
        self._row_length = int(description.get("max_seq_length", 512))
        self._segments = int(description.get("segments", 1))
        self._max_cost = options.max_cost
        if size is not None and "score" not in description["signatures"]:
            size = size._replace(vocab_size=0)  # no logits of every token
        self.max_tokens = options.max_tokens or _tokens_of(
            size, free // _SHARE, self._row_length
        )

    def check(self, signature: str, rows: list[dict]) -> tuple[int, int]:
        """(tokens of the longest row, cost of all rows).

        Raises:
          UserError: a row or the request is above its bound.
        """
        work = [self.row_work(signature, row) for row in rows]
        for i, found in enumerate(work):
            if found.chosen and found.tokens > self.max_tokens:
                raise UserError(
                    f"instances[{i}]: wanted at most {self.max_tokens} tokens "
                    f"(sequences x length, memory included), found "
                    f"{found.tokens}; send shorter rows or raise --max_tokens"
                )
        cost = sum(found.cost for found in work)
        if cost > self._max_cost:
            raise UserError(
                f"this request takes about {cost} tokens through the model, at "
                f"most {self._max_cost} are allowed; send fewer rows or masks, "
                "or raise --max_cost"
            )
        return max(found.tokens for found in work), cost

    def row_work(self, signature: str, row: Mapping) -> Work:
        """See `Work`; texts are guessed from their characters."""
        if "input_ids" in row:
            shape = row["input_ids"].shape  # [T] or [C, T]
            slots = row["memory"].shape[-2] if "memory" in row else 0
            sequences = 1 if len(shape) == 1 else shape[0]
            tokens = sequences * (shape[-1] + slots)
            return Work(tokens, tokens, True)
        texts = [
            text
            for value in row.values()
            for text in (value if isinstance(value, list) else [value])
        ]
        masks = 0
        if signature == "fill_mask":
            masks = sum(text.count(MASK) for text in texts)
        chars = sum(len(text) for text in texts) - masks * len(MASK)
        pieces = chars // _CHARS_PER_PIECE + masks + 8
        if signature == "tokenize":
            return Work(1, pieces, False)
        length = min(pieces, self._row_length)
        lists = [len(v) for v in row.values() if isinstance(v, list)]
        if lists:  # options: each is a sequence with the passage
            tokens = max(lists) * length
            return Work(tokens, tokens, True)
        if self._head == "span":
            windows = 1 + 2 * pieces // self._row_length
            tokens = min(windows, _WINDOWS) * length
            return Work(tokens, windows * length, False)
        if signature == "fill_mask":
            return Work(length, length * max(1, min(masks, length)), False)
        segments = min(self._segments, 1 + pieces // self._row_length)
        return Work(length, length * segments, False)


def _tokens_of(size: ModelSize | None, share: int, least: int) -> int:
    """The longest row that fits `share` bytes, at least the model's own."""
    if size is None:
        return _LARGEST_RUN
    low, high = 0, _LARGEST_RUN
    while low < high:
        middle = (low + high + 1) // 2
        if size.run_bytes(1, middle) <= share:
            low = middle
        else:
            high = middle - 1
    return max(low, least)
