"""Where a step's time goes: thread time by kind of operation (`--profile`)."""

import re
from collections.abc import Sequence

MATMULS = "matmuls"
# Types of operations, by the kind they are shown as. Others are "other".
KINDS = {
    MATMULS: "MatMul BatchMatMul Einsum",
    # Compiled functions; see benchmarks.systems.op_times.COMPILED.
    "fused kernels": "ProcessAsync",
    "softmax": "Softmax LogSoftmax",
    "gathers and scatters": (
        "Gather GatherNd ResourceGather ScatterNd TensorScatterAdd "
        "TensorScatterUpdate UnsortedSegmentSum InplaceAdd InplaceSub "
        "InplaceUpdate"
    ),
    "casts": "Cast",
    "transposes": "Transpose ConjugateTranspose",
    "copies": (
        "Concat Pack Unpack Split SplitV Slice StridedSlice StridedSliceGrad "
        "Pad Tile Roll Fill DeepCopy Snapshot"
    ),
    "elementwise and sums": (
        "Add AddN Sub Mul RealDiv Neg Exp Log Tanh TanhGrad Erf Sqrt Rsqrt "
        "RsqrtGrad Square SquaredDifference Maximum Minimum Select Sum Mean "
        "Max ArgMax L2Loss BiasAdd BiasAddGrad BroadcastTo Binary BitwiseXor "
        "LeftShift RightShift Equal NotEqual Less LessEqual Greater "
        "GreaterEqual LogicalAnd LogicalOr"
    ),
}
_KIND_OF = {t: name for name, types in KINDS.items() for t in types.split()}
# Of a type's name: oneDNN's and fused variants, and versions.
_VARIANT = re.compile(r"^_(Mkl(Native)?)?(Fused)?|V\d$")
OTHER = "other"


def by_kind(operations: dict[str, Sequence[float]]) -> dict[str, list[float]]:
    """Kind -> [calls, milliseconds] of a step, the slowest kind first.

    Args:
      operations: type of operation -> [calls, milliseconds], as
        `benchmarks.systems.op_times.traced` gives them.
    """
    total: dict[str, list[float]] = {}
    for name, (calls, ms) in operations.items():
        kind = _KIND_OF.get(_VARIANT.sub("", name), OTHER)
        entry = total.setdefault(kind, [0.0, 0.0])
        entry[0] += calls
        entry[1] += ms
    return dict(sorted(total.items(), key=lambda item: -item[1][1]))


def bound(row: dict) -> dict[str, float] | None:
    """What the matmuls of a traced row say of its share of the peak.

    Returns:
      "matmul_share": of the thread time; "of_peak_in_matmuls": of the matmul
      peak while they run, which the whole step would reach if nothing else took
      time. None where the row has no trace, matmul or peak.
    """
    kinds = by_kind(row.get("operations") or {})
    total = sum(ms for _, ms in kinds.values())
    of_peak = row.get("of_peak")
    if not total or not of_peak or not kinds.get(MATMULS, (0, 0))[1]:
        return None
    share = kinds[MATMULS][1] / total
    return {"matmul_share": share, "of_peak_in_matmuls": of_peak / share}


def text(row: dict) -> str:
    """The profile of one system as a Markdown table; "" without a trace."""
    kinds = by_kind(row.get("operations") or {})
    total = sum(ms for _, ms in kinds.values())
    if not total:
        return ""
    lines = [
        f"\n{row['system']}: {total:.1f} ms of thread time in a step",
        "| operations | calls | ms | share |",
        "|---|---|---|---|",
    ]
    for name, (calls, ms) in kinds.items():
        lines.append(f"| {name} | {calls:.0f} | {ms:.1f} | {ms / total:.1%} |")
    if found := bound(row):
        lines.append(
            f"in the matmuls {found['of_peak_in_matmuls']:.0%} of the matmul "
            "peak: the step's share of it if nothing else took time"
        )
    return "\n".join(lines)
