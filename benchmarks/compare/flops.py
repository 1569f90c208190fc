"""Matrix-product FLOPs that a workload needs, whoever computes it.

Counted: every product without which the result cannot be had, at two FLOPs per
multiply-add; the backward pass twice the forward pass, less the gradients that
nobody uses. Not counted: what a system computes and throws away. XLNet's queries
are multiplied with all K + T positions, of which the shift keeps K: these count
as the papers compute them. So `FLOPs / time / peak` says how near a system is
to the machine's limit.
"""

import itertools
import math

from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload


def stream_rows(w: Workload, rows: int, keys: int, positions: int) -> int:
    """Forward FLOPs of one layer for `rows` query rows of one example.

    Query and output projections, content and position scores, the weighted
    sum, and the feed-forward sublayer.
    """
    d = w.heads * w.head_size
    project = 2 * 2 * rows * w.width * d
    attend = 2 * rows * d * (2 * keys + positions)
    feed_forward = 2 * 2 * rows * w.width * w.inner
    return project + attend + feed_forward


def keys_and_values(w: Workload, keys: int) -> int:
    """Forward FLOPs of K and V for one example."""
    return 2 * 2 * keys * w.width * w.heads * w.head_size


def positions_table(w: Workload, positions: int, directions: int) -> int:
    """Forward FLOPs of the projected position table, once per direction."""
    return 2 * directions * positions * w.width * w.heads * w.head_size


def forward(w: Workload) -> int:
    """FLOPs of inference on one batch of a classifier without memory."""
    t = w.length
    layer = w.batch * (stream_rows(w, t, t, 2 * t) + keys_and_values(w, t))
    return w.layers * (layer + positions_table(w, 2 * t, 1))


def finetune_step(w: Workload) -> int:
    """Forward and backward of a classifier.

    The position table has no gradient of its own.
    """
    table = w.layers * positions_table(w, 2 * w.length, 1)
    return 3 * forward(w) - table


def pretrain_step(w: Workload) -> int:
    """Forward and backward of the two-stream objective.

    The last layer needs no content stream: nobody reads its output, and the
    memory is made of layers' inputs. Memory and position table have no
    gradients.
    """
    keys = w.memory + w.length
    positions = keys + w.length
    content = stream_rows(w, w.length, keys, positions)
    query = stream_rows(w, w.predict, keys, positions)
    table = positions_table(w, positions, 2)
    total = 0
    for layer in range(w.layers):
        example = query + keys_and_values(w, keys)
        if layer < w.layers - 1:
            example += content
        total += 3 * (w.batch * example + table) - table
        total -= w.batch * keys_and_values(w, w.memory)
    lm_head = 2 * w.batch * w.predict * w.width * w.vocab
    return total + 3 * lm_head


def language_model_step(w: Workload) -> int:
    """Forward and backward of the left-to-right objective.

    Of the causal band, no key ahead counts. Memory and position table have no
    gradients. Of an adaptive softmax the head, and every tail for the expected
    share of its targets (`workloads.lm_batch`).
    """
    t, m, inside = w.length, w.memory, w.heads * w.head_size
    pairs = t * m + t * (t + 1) // 2
    rows = 2 * t * w.width * (2 * inside + 2 * w.inner) + 6 * pairs * inside
    example = rows + keys_and_values(w, m + t)
    table = positions_table(w, m + t, 1)
    total = w.layers * (3 * (w.batch * example + table) - table)
    total -= w.layers * w.batch * keys_and_values(w, m)
    ends = [*w.cutoffs, w.vocab]
    ids = float(ends[0] + len(w.cutoffs))
    for start, end in itertools.pairwise(ends):
        share = math.log((end + 1) / (start + 1)) / math.log(w.vocab)
        ids += (end - start) * share
    return total + 3 * round(2 * w.batch * t * w.width * ids)


def pairs_seen(w: Workload, layer: int) -> int:
    """Pairs of query and key of one row and layer; fewer in a local one."""
    t = w.length
    if w.model_type != "modernbert" or layer % workloads.MODERNBERT_GLOBAL == 0:
        return t * t
    near = min(workloads.MODERNBERT_WINDOW // 2, t - 1)
    return t * (2 * near + 1) - near * (near + 1)


def encoder_forward(w: Workload) -> int:
    """Inference of a classifier of BERT, ALBERT or ModernBERT.

    Four projections, two products per pair, the feed-forward sublayer (three
    matrices with a gate), ALBERT's mapping, and a dense layer on one vector.
    """
    t, d, inside = w.length, w.width, w.heads * w.head_size
    gated = w.model_type == "modernbert"
    row = 2 * 4 * d * inside + 2 * (3 if gated else 2) * d * w.inner
    total = sum(
        t * row + 2 * 2 * pairs_seen(w, i) * inside for i in range(w.layers)
    )
    if w.model_type == "albert":
        total += 2 * t * workloads.ALBERT_EMBEDDING * d
    return w.batch * (total + 2 * d * d)


def of(w: Workload) -> int:
    """FLOPs of one step of a workload; 0 where the count means nothing."""
    if w.model_type != "xlnet":
        passes = {"finetune": 3, "inference": 1}
        return passes.get(w.kind, 0) * encoder_forward(w)
    counts = {
        "pretrain": pretrain_step,
        "finetune": finetune_step,
        "inference": forward,
        "language_model": language_model_step,
    }
    return counts[w.kind](w) if w.kind in counts else 0
