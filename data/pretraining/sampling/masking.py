"""Masked language modelling from the records of permutation LM.

Global batches of the reader become batches of corrupted rows: every draw is a
function of (seed, step) and the place in the global batch, so that replicas,
accumulation and a restart change nothing, and an epoch later it differs.

  targets     the stored ones, or `rate` of a row's tokens drawn anew
  corruption  80 % `<mask>`, 10 % a random piece, 10 % unchanged (BERT)
  layout      [A SEP B SEP CLS] -> [CLS A SEP B SEP] where CLS comes first
  order       none; with memory the reuse part still must not see the rest

The last line is why a denoising objective with memory does not leak: segments
advance by the reuse part, so A of this segment is the reuse part of the next,
and its tokens are targets there. Memory that had seen them would hold the
answers. So `ranks` are -1 in the reuse part and `reuse_len` in the rest, and
no token is a target of the permutation mask: only reuse -> rest is blocked.

Letters: B batch, T length, P targets.
"""

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from common.checks import FIELD, one_of, within
from common.contract import symbols as symbols_lib
from common.contract.pairs import has_pair
from common.contract.symbols import SymbolIds
from common.errors import UserError

PAIRS = ("none", "nsp", "sop")
# Numbers of the draws of a step.
_TARGETS, _KIND, _PIECE, _SWAP = range(4)


@dataclasses.dataclass(frozen=True)
class MaskingOptions:
    """How rows are corrupted."""

    vocab_size: int
    symbols: SymbolIds  # none of them is drawn as a random piece
    reuse_len: int
    seed: int = 0
    layout: str = symbols_lib.CLS_LAST
    # share of a row's tokens that are targets; 0 = the stored ones
    rate: float = 0.0
    mask_share: float = 0.8  # of the targets, as `random_share`
    random_share: float = 0.1  # the rest stays as it is
    # what `next_sentence_label` is: "nsp" (1 = B follows A with CLS last, 0 =
    # follows with CLS first, as in BERT's files), "sop" (1 = the two real
    # halves are swapped; rows whose B is random do not count)
    pair: str = "none"
    # the reuse part may not see the rest (memory is in use)
    hide_rest: bool = False

    def __post_init__(self):
        within(self, "[0, 1)", "rate", form="--mask_{}")
        one_of(self, form=FIELD, pair=PAIRS)
        if self.pair == "sop" and self.reuse_len:
            raise UserError(
                "--sentence_order swaps the two halves of a row: build the "
                "data with --reuse_len=0"
            )
        if self.pair == "sop" and self.layout == symbols_lib.CLS_LAST:
            raise UserError(
                "--sentence_order is for encoders whose CLS comes first"
            )
        if self.hide_rest and self.layout == symbols_lib.CLS_FIRST:
            raise UserError("memory needs rows whose CLS comes last")

    def pieces(self) -> list[int]:
        """Ids that a random piece may have: no symbol, not `<unk>`."""
        never = self.symbols.never_filled()
        return [i for i in range(self.vocab_size) if i not in never]


def masked_batches(input_fn: Callable, options: MaskingOptions) -> Callable:
    """`input_fn` of global batches -> one of corrupted ones.

    `input_fn`: params -> `tf.data.Dataset` of
    `common.contract.schema.PRETRAIN_BATCH`, whose first batch is that of
    `params["start_step"]`. The new batches have `pair_weight` float32 [B], too.
    """

    def make(params):
        dataset = input_fn(params)
        start = int(params.get("start_step", 0))
        rows, size = params.get("rows"), params.get("batch_size", 0)
        numbered = dataset.enumerate(start=start)
        return numbered.map(
            lambda step, batch: corrupt(batch, step, options, rows, size),
            num_parallel_calls=1,
        )

    return make


@tf.autograph.experimental.do_not_convert
def corrupt(
    batch: dict,
    step: tf.Tensor,
    options: MaskingOptions,
    rows: Sequence[int] | None = None,
    batch_size: int = 0,
) -> dict:
    """One global batch or some of its rows, see the module.

    `step` is the batch's number, int scalar; `rows` of the global batch's
    `batch_size` these are (None = all).
    """
    batch = dict(batch)
    seed = tf.random.experimental.stateless_fold_in(
        tf.constant([options.seed, 0x4D4C], tf.int32),
        tf.cast(step, tf.int32),
    )

    def uniform(number, shape):  # [0, 1)
        draw_seed = tf.random.experimental.stateless_fold_in(seed, number)
        if rows is None:
            return tf.random.stateless_uniform(shape, draw_seed)
        # A place has the number that it has in the global batch.
        shape = [batch_size, *tf.unstack(shape)[1:]]
        return tf.gather(tf.random.stateless_uniform(shape, draw_seed), rows)

    for name in ("perm_mask", "target_mapping"):
        batch.pop(name, None)
    batch["pair_weight"] = batch["row_weight"] * has_pair(batch)
    if options.pair == "sop":
        _swap(batch, uniform)
    if options.rate:
        _draw_targets(batch, uniform, options)
    batch["input_ids"] = _corrupted(batch, uniform, options)
    if options.layout == symbols_lib.CLS_FIRST:
        _cls_to_the_front(batch, options.symbols)
        if options.pair == "nsp":
            batch["next_sentence_label"] = 1 - batch["next_sentence_label"]
    length = batch["input_ids"].shape[1]
    rest = tf.range(length) >= (options.reuse_len if options.hide_rest else 0)
    ranks = tf.where(rest, options.reuse_len, -1)  # [T]
    batch["ranks"] = tf.zeros_like(batch["ranks"]) + ranks
    return batch


def _draw_targets(batch, uniform, options) -> None:
    """`rate` of each row's tokens, exactly rounded; SEP and CLS are none."""
    ids, shape = batch["input_ids"], tf.shape(batch["input_ids"])
    length = ids.shape[1]
    able = tf.cast(batch["input_mask"], tf.bool)  # [B, T]
    for symbol in options.symbols.functional():
        able &= ids != symbol
    count = tf.reduce_sum(tf.cast(able, tf.float32), 1)  # [B]
    wanted = tf.cast(tf.round(options.rate * count), tf.int32)
    slots = max(1, round(options.rate * length))
    order = tf.where(able, uniform(_TARGETS, shape), -1.0)
    positions = tf.math.top_k(order, slots).indices  # [B, P]
    used = tf.range(slots) < wanted[:, tf.newaxis]
    positions = tf.where(used, positions, 0)
    batch["target_positions"] = positions
    batch["target_weights"] = tf.cast(used, tf.float32)
    ids_there = tf.gather(ids, positions, batch_dims=1)
    batch["target_ids"] = tf.where(used, ids_there, 0)


def _corrupted(batch, uniform, options) -> tf.Tensor:
    """int32 [B, T]."""
    ids, positions = batch["input_ids"], batch["target_positions"]
    shape = tf.shape(positions)
    used = batch["target_weights"] > 0
    pieces = tf.constant(options.pieces(), tf.int32)
    number = tf.cast(uniform(_PIECE, shape) * float(pieces.shape[0]), tf.int32)
    # 1 - 2^-24 times a size may round up to it.
    number = tf.minimum(number, pieces.shape[0] - 1)
    kind = uniform(_KIND, shape)
    old = tf.gather(ids, positions, batch_dims=1)  # [B, P]
    bound = options.mask_share + options.random_share
    new = tf.where(kind < bound, tf.gather(pieces, number), old)
    new = tf.where(kind < options.mask_share, options.symbols.mask, new)
    # Unused slots point at a place that another one may have: they add 0.
    change = tf.where(used, new - old, 0)
    rows = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], shape)
    places = tf.stack([rows, positions], -1)  # [B, P, 2]
    return tf.ensure_shape(
        tf.tensor_scatter_nd_add(ids, places, change), ids.shape
    )


def _cls_to_the_front(batch, symbols: SymbolIds) -> None:
    """[A SEP B SEP CLS pad] -> [CLS A SEP B SEP pad]; CLS is of segment 0.

    A row at the end of a lane may have text alone, and gets both symbols:
    [A pad] -> [CLS A SEP pad]. (The reader's rows have room for a second part.)
    """
    size = tf.reduce_sum(batch["input_mask"], 1, keepdims=True)  # [B, 1]
    is_cls = (batch["input_ids"] == symbols.cls) & (batch["input_mask"] > 0)
    alone = ~tf.reduce_any(is_cls, 1, keepdims=True) & (size > 0)  # [B, 1]
    position = tf.range(batch["input_ids"].shape[1])[tf.newaxis]  # [1, T]
    cls = size - 1  # where it stands, [B, 1]
    source = tf.where(position <= cls, position - 1, position)
    source = tf.where(position == 0, tf.maximum(cls, 0), source)  # [B, T]
    source = tf.where(alone, tf.maximum(position - 1, 0), source)
    for name in ("input_ids", "input_mask", "segment_ids"):
        batch[name] = tf.gather(batch[name], source, batch_dims=1)
    first = batch["segment_ids"] == symbols_lib.SEGMENT_CLS
    for at, symbol in ((0, symbols.cls), (size + 1, symbols.sep)):
        there = alone & (position == at)
        batch["input_ids"] = tf.where(there, symbol, batch["input_ids"])
        batch["input_mask"] = tf.where(there, 1, batch["input_mask"])
    batch["segment_ids"] = tf.where(
        first, symbols_lib.SEGMENT_A, batch["segment_ids"]
    )
    target = batch["target_positions"]
    moved = tf.where(target < cls, target + 1, target)
    moved = tf.where(target == cls, 0, moved)
    batch["target_positions"] = tf.where(alone, target + 1, moved)


def _swap(batch, uniform) -> None:
    """Half of the rows whose B follows A become B SEP A SEP CLS.

    The label becomes 1 = swapped, and rows whose B is random do not count.
    """
    segments = batch["segment_ids"]
    rows, length = tf.shape(segments)[0], segments.shape[1]
    real = batch["next_sentence_label"] == 1  # [B]
    swapped = real & (uniform(_SWAP, [rows]) < 0.5)

    def lengths(kind):
        there = tf.cast(segments == kind, tf.int32)
        return tf.reduce_sum(there, 1, keepdims=True)  # [B, 1]

    a = lengths(symbols_lib.SEGMENT_A)
    b = lengths(symbols_lib.SEGMENT_B)
    position = tf.range(length)[tf.newaxis]
    source = tf.where(position < b, position + a, position - b)
    source = tf.where(position < a + b, source, position)
    source = tf.where(swapped[:, tf.newaxis], source, position)  # [B, T]
    for name in ("input_ids", "input_mask"):
        batch[name] = tf.gather(batch[name], source, batch_dims=1)
    kinds = tf.where(position < b, symbols_lib.SEGMENT_A, symbols_lib.SEGMENT_B)
    kinds = tf.where(position < a + b, kinds, segments)
    batch["segment_ids"] = tf.where(swapped[:, tf.newaxis], kinds, segments)
    target = batch["target_positions"]
    moved = tf.where(target < a, target + b, target - a)
    moved = tf.where(target < a + b, moved, target)
    batch["target_positions"] = tf.where(swapped[:, tf.newaxis], moved, target)
    batch["next_sentence_label"] = tf.cast(swapped, tf.int32)
    batch["pair_weight"] *= tf.cast(real, tf.float32)


def ordered_batches(input_fn: Callable, order: str, reuse_len: int) -> Callable:
    """`input_fn` of batches -> one whose targets stand in another order.

    So that rows of an ablation read the same text in the same order with the
    same targets. The reuse part never sees the second part.

    Args:
      order: "random", as stored; "none": the targets of a part see its context
        and not each other; "forward": every token in the order of the text (of
        the row's direction), as a left-to-right language model.
    """
    if order == "random":
        return input_fn

    def make(params):
        return input_fn(params).map(
            lambda batch: reorder(batch, order, reuse_len),
            num_parallel_calls=1,
        )

    return make


@tf.autograph.experimental.do_not_convert
def reorder(batch: dict, order: str, reuse_len: int) -> dict:
    """A batch whose `ranks` [B, T] are those of "none" or "forward".

    Masks that came with it (`--materialize_masks`) are left out: they are of
    the stored order.
    """
    batch = dict(batch)
    for name in ("perm_mask", "target_mapping"):
        batch.pop(name, None)
    ranks = batch["ranks"]  # [B, T]
    positions = tf.zeros_like(ranks) + tf.range(
        ranks.shape[1], dtype=ranks.dtype
    )
    if order == "forward":
        batch["ranks"] = positions
        return batch
    used = tf.cast(batch["target_weights"] > 0, ranks.dtype)  # [B, P]
    hot = tf.one_hot(
        batch["target_positions"], ranks.shape[1], dtype=ranks.dtype
    )
    is_target = tf.reduce_max(hot * used[:, :, tf.newaxis], 1)  # [B, T]
    # SEP and CLS, which have places in a stored order, are context here.
    context = tf.where(positions < reuse_len, -1, reuse_len)
    batch["ranks"] = context + is_target
    return batch
