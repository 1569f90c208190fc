"""Where a step's time goes: thread time by kind of operation (`--profile`)."""

from collections.abc import Sequence

MATMULS = "matmuls"
# Types of operations, by the kind they are shown as. Others are "other".
KINDS = {
    MATMULS: (
        "MatMul",
        "BatchMatMul",
        "BatchMatMulV2",
        "BatchMatMulV3",
        "Einsum",
        "_FusedMatMul",
        "_MklMatMul",
        "_MklFusedMatMul",
        "_MklBatchMatMul",
        "_MklBatchMatMulV2",
        "_MklFusedBatchMatMulV2",
        "_MklNativeMatMul",
        "_MklNativeFusedMatMul",
        "_MklNativeBatchMatMul",
        "_MklNativeBatchMatMulV2",
        "_MklNativeFusedBatchMatMulV2",
    ),
    # Compiled functions; see benchmarks.systems.op_times.COMPILED.
    "fused kernels": ("ProcessAsync",),
    "softmax": ("Softmax", "LogSoftmax", "_MklSoftmax", "_MklNativeSoftmax"),
    "gathers and scatters": (
        "Gather",
        "GatherV2",
        "GatherNd",
        "ResourceGather",
        "ScatterNd",
        "TensorScatterAdd",
        "TensorScatterUpdate",
        "UnsortedSegmentSum",
        "InplaceAdd",
        "InplaceSub",
        "InplaceUpdate",
    ),
    "casts": ("Cast",),
    "transposes": ("Transpose", "_MklTranspose", "ConjugateTranspose"),
    "copies": (
        "ConcatV2",
        "_MklConcatV2",
        "Pack",
        "Unpack",
        "Split",
        "SplitV",
        "Slice",
        "_MklSlice",
        "StridedSlice",
        "StridedSliceGrad",
        "Pad",
        "PadV2",
        "Tile",
        "Roll",
        "Fill",
        "DeepCopy",
    ),
    "elementwise and sums": (
        "Add",
        "AddV2",
        "AddN",
        "Sub",
        "Mul",
        "RealDiv",
        "Neg",
        "Exp",
        "Log",
        "Tanh",
        "TanhGrad",
        "Erf",
        "Sqrt",
        "Rsqrt",
        "RsqrtGrad",
        "Square",
        "SquaredDifference",
        "Maximum",
        "Minimum",
        "Select",
        "SelectV2",
        "Sum",
        "Mean",
        "Max",
        "L2Loss",
        "BiasAdd",
        "BiasAddGrad",
        "BroadcastTo",
        "_FusedBinary",
    ),
}
_KIND_OF = {kind: name for name, kinds in KINDS.items() for kind in kinds}
OTHER = "other"


def by_kind(operations: dict[str, Sequence[float]]) -> dict[str, list[float]]:
    """Kind -> [calls, milliseconds] of a step, the slowest kind first.

    Args:
      operations: type of operation -> [calls, milliseconds], as
        `benchmarks.systems.op_times.traced` gives them.
    """
    total: dict[str, list[float]] = {}
    for name, (calls, ms) in operations.items():
        entry = total.setdefault(_KIND_OF.get(name, OTHER), [0.0, 0.0])
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
