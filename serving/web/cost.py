"""What a request costs before it runs: memory of a run, tokens of all runs.

The memory of attention grows with the square of the length, so a request of
50 KB can ask for more memory than a machine has. The estimate comes from the
shapes of the model's variables; it counts the tensors that live at once in
the widest layer, measured on exported models and rounded up.
"""

from collections.abc import Mapping
from typing import NamedTuple

import psutil

from common.contract.symbols import MASK
from common.errors import UserError
from data.text.normalization import most_chars
from serving.options import ServerOptions

_LARGEST_RUN = 16_384  # tokens: a run should not keep its neighbours waiting
_SHARE = 4  # of the free memory: two lanes run, and something is left
_SCORE_TENSORS = 16  # float [rows, heads, T, T + M] alive at once, two streams
_WINDOWS = 16  # windows of a paragraph that run together
_CHARS_PER_PIECE = 2  # a low guess, so that costs are guessed high
_CHARS_PER_TOKEN = 8  # that are cut in the time of a token
_STEP = 64  # tokens that could pass in the time of a generated one


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

    `shapes` of the variables are by name; older exports of XLNet have no more.
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
    """What one row asks of the model, or the longest row of a request."""

    tokens: int  # that run at once for it: sequences x (length + memory)
    cost: int  # tokens that pass through the model for it, in all runs
    chosen: bool  # the client chose the length, not the model
    # of the normalised texts, which are cut into pieces, whatever is read of
    # them
    chars: int = 0

    @property
    def weight(self) -> int:
        """Its time, as that of so many tokens."""
        return self.cost + self.chars // _CHARS_PER_TOKEN


def _most_pieces(text: str) -> int:
    """Pieces of a text: many are one character where no alphabet is."""
    plain = len(text.encode("ascii", "ignore"))
    ends = text.count("\n")
    return len(text) - plain + ends + (plain - ends) // _CHARS_PER_PIECE + 7


# Unit of a language model's vocabulary -> how many of them a text has, its
# line ends included.
_SYMBOLS = {
    "byte": lambda text: len(text.encode()),
    "char": len,
    "word": lambda text: len(text.split()) + text.count("\n"),
}


class Budget:
    """How much one run and one request may take.

    The size is the model's, None = unknown. Of the options `max_tokens` counts,
    0 = from the free memory, and `max_cost`.
    """

    def __init__(
        self,
        description: Mapping,
        size: ModelSize | None,
        options: ServerOptions,
        free: int,
    ):
        most_chars("\u00e9")  # its table is made before the first request
        self._head = description.get("head", "")
        unit = description.get("unit", "piece")
        self._count = _SYMBOLS.get(unit, _most_pieces)
        # Masked language models fill all places in one run.
        fill = description["signatures"].get("fill_mask", {})
        self._at_once = "independent" in fill.get("outputs", ())
        # of the longest text that the model reads at once
        self.row_tokens = int(description.get("max_seq_length", 512))
        self._segments = int(description.get("segments", 1))
        # Of a left-to-right model: what a prompt is read in, after how many
        # slots. Exports of older versions read it whole.
        self._prompt_segment = description.get("prompt_segment")
        self._slots = description.get("mem_len", 0)
        data = description.get("data_options", {})
        # Ranking: pieces between two passages of a document, 0 = its first one.
        self._stride = data.get("passage_stride") or 0
        self._passages = data.get("max_passages") or 1
        self._max_cost = options.max_cost
        if size is not None and "score" not in description["signatures"]:
            size = size._replace(vocab_size=0)  # no logits of every token
        self.max_tokens = options.max_tokens or _tokens_of(
            size, free // _SHARE, self.row_tokens
        )

    def check(
        self, signature: str, rows: list[dict], whole: bool = False
    ) -> Work:
        """The most that any row asks for; UserError above a bound.

        `whole`: the rows run together.
        """
        work = [self.row_work(signature, row) for row in rows]
        for i, row_work in enumerate(work):
            if row_work.chosen and row_work.tokens > self.max_tokens:
                raise UserError(
                    f"instances[{i}]: wanted at most {self.max_tokens} tokens "
                    f"(sequences x length, memory included), found "
                    f"{row_work.tokens}; send shorter rows or raise --max_tokens"
                )
        together = len(rows) * max(row_work.tokens for row_work in work)
        if whole and together > self.max_tokens:
            raise UserError(
                f"instances: rows of {signature!r} run together: wanted at "
                f"most {self.max_tokens} tokens in all (rows x length, memory "
                f"included), found {together}; send fewer rows or raise "
                "--max_tokens"
            )
        cost = sum(row_work.cost for row_work in work)
        if cost > self._max_cost:
            raise UserError(
                f"this request takes about {cost} tokens through the model, at "
                f"most {self._max_cost} are allowed; send fewer rows or masks, "
                "or raise --max_cost"
            )
        return Work(*(max(values) for values in zip(*work, strict=True)))

    def row_work(self, signature: str, row: Mapping) -> Work:
        """See `Work`; texts are guessed from their characters."""
        steps = int(row.get("max_new_tokens", 0))
        if "input_ids" in row:
            shape = row["input_ids"].shape  # [T] or [C, T]
            slots = row["memory"].shape[-2] if "memory" in row else 0
            sequences = 1 if len(shape) == 1 else shape[0]
            tokens = sequences * (shape[-1] + slots)
            return Work(tokens, tokens + _STEP * steps, True)
        texts = [
            text
            for value in row.values()
            for text in (value if isinstance(value, list) else [value])
            if isinstance(text, str)
        ]
        masks = 0
        if signature == "fill_mask":
            masks = sum(text.count(MASK) for text in texts)
        chars = sum(map(most_chars, texts)) - masks * len(MASK)
        if signature == "tokenize":
            return Work(1, 1 + chars // _CHARS_PER_PIECE, False, chars)
        if self._head == "language_model":
            symbols = 1 + sum(map(self._count, texts))
            text_work = Work(symbols, symbols, True)  # one segment
            if self._prompt_segment and signature == "generate_text":
                at_once = min(symbols, self._prompt_segment) + self._slots
                return Work(at_once, symbols + _STEP * steps, True, chars)
        else:
            text_work = self._text_work(signature, row, chars, masks)
        tokens, cost = text_work.tokens + steps, text_work.cost + _STEP * steps
        return text_work._replace(tokens=tokens, cost=cost, chars=chars)

    def _text_work(self, signature, row, chars: int, masks: int) -> Work:
        """What the model does with so many characters of text."""
        pieces = chars // _CHARS_PER_PIECE + masks + 8
        length = min(pieces, self.row_tokens)
        segments = min(self._segments, 1 + pieces // self.row_tokens)
        lists = [len(v) for v in row.values() if isinstance(v, list)]
        if lists:  # each option or document is a sequence with the other text
            sequences = max(lists)
            if self._stride:  # passages of documents run together
                passages = sequences + pieces // self._stride
                sequences = min(passages, sequences * self._passages)
            tokens = sequences * length
            return Work(tokens, tokens * segments, True)
        if self._head == "span":
            windows = 1 + 2 * pieces // self.row_tokens
            tokens = min(windows, _WINDOWS) * length
            return Work(tokens, windows * length, False)
        if signature == "fill_mask":
            runs = 1 if self._at_once else max(1, min(masks, length))
            return Work(length, length * runs, False)
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
