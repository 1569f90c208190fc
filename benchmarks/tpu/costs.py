"""What a compiled step costs on a chip and on a pod. Pure arithmetic.

The assumptions are `ASSUMPTIONS`, printed with every plan.
"""

import dataclasses
import math

from common.errors import UserError

GIB = 2.0**30
# More unpriced instructions than this, and the estimate means nothing.
MAX_UNPRICED = 8
# So does one that whole seconds bring so many times above the roofline.
FARTHEST = 4

ASSUMPTIONS = """1. Forward + backward + clipping takes the compiler's own `optimal seconds`.
   The compiler books -1 s for each instruction that it cannot price (a few
   scalars): whole seconds are added until the estimate is not below the
   roofline. Where it gives no estimate, or one that is then more than four
   times the roofline, the roofline counts: the larger of FLOPs over peak and
   bytes over HBM bandwidth (perfect overlap).
2. The rest of the step (optimizer, memory update) is bound by HBM: what the
   full program accesses beyond the first program, over the bandwidth.
3. Gradients are summed over all chips in float32 by a ring on the chip's
   links, 2 (n - 1) / n times their bytes, in one direction of the links, not
   overlapped with the backward pass.
4. The host keeps up, and no step is lost.
"""


@dataclasses.dataclass(frozen=True)
class Chip:
    """Published numbers of one chip, and how many cores a program sees.

    Attributes:
      peak_flops: bfloat16 FLOP/s of the chip; float32 products run as
        bfloat16 passes at the same nominal rate.
      hbm_bytes: of the chip.
      hbm_bandwidth: bytes/s of the chip.
      link_bandwidth: bytes/s of all links of the chip, both directions.
      cores: replicas per chip (v4's two cores act as one).
    """

    peak_flops: float
    hbm_bytes: float
    hbm_bandwidth: float
    link_bandwidth: float
    cores: int


CHIPS = {
    "v3": Chip(123e12, 32 * GIB, 900e9, 656e9 / 8, 2),
    "v4": Chip(275e12, 32 * GIB, 1228e9, 2400e9 / 8, 1),
    "v5e": Chip(197e12, 16 * GIB, 819e9, 1600e9 / 8, 1),
    "v6e": Chip(918e12, 32 * GIB, 1640e9, 3584e9 / 8, 1),
}


def units(cores: int, size: int, noun: str) -> int:
    """How many chips or hosts of `size` cores have `cores`; at least one.

    Raises UserError: of one of several only a part is used.
    """
    if cores > size and cores % size:
        raise UserError(
            f"--pod_cores={cores}: a {noun} has {size} cores here; give a "
            f"multiple, {cores // size * size} or {-(-cores // size) * size}"
        )
    return max(1, cores // size)


@dataclasses.dataclass(frozen=True)
class StepTime:
    """Seconds of the parts of one step.

    Attributes:
      compute: forward + backward + clipping.
      source: "compiler" or "roofline".
      update: optimizer and memory.
      all_reduce: gradient exchange.
    """

    compute: float
    source: str
    update: float
    all_reduce: float

    @property
    def total(self) -> float:
        """One step, nothing overlapped."""
        return self.compute + self.update + self.all_reduce


def roofline(flops: float, bytes_accessed: float, chip: Chip) -> float:
    """Seconds on one core by the slower of arithmetic and HBM."""
    return max(
        flops / (chip.peak_flops / chip.cores),
        bytes_accessed / (chip.hbm_bandwidth / chip.cores),
    )


def compute_seconds(
    flops: float, bytes_accessed: float, optimal_seconds: float, chip: Chip
) -> tuple[float, str]:
    """Assumption 1: (seconds, "compiler" or "roofline").

    Worked: roofline 0.10, estimate -1.86 -> 0.14 s (two scalars unpriced);
    roofline 3.0, estimate 0 -> 3.0 s; roofline 0.10, estimate -0.9993 -> 0.10 s
    (only scalars have a price: 1.0007 s would mean nothing).
    """
    least = roofline(flops, bytes_accessed, chip)
    if optimal_seconds == 0:
        return least, "roofline"
    missing = max(0, math.ceil(least - optimal_seconds))
    seconds = optimal_seconds + missing
    if missing > MAX_UNPRICED or (missing and seconds > FARTHEST * least):
        return least, "roofline"
    return seconds, "compiler"


def all_reduce_seconds(gradient_bytes: float, chips: int, chip: Chip) -> float:
    """Assumption 3; the cores of one chip sum in its own HBM, for free."""
    if chips <= 1:
        return 0.0
    one_way = chip.link_bandwidth / 2
    return 2 * (chips - 1) / chips * gradient_bytes / one_way


def step_time(
    forward_backward, full_step, gradient_bytes: float, chips: int, chip: Chip
) -> StepTime:
    """Puts the parts together.

    Args:
      forward_backward: `lowering.Compiled` of forward, backward, clipping.
      full_step: the same of the whole step, or None.
      gradient_bytes: of all gradients, float32.
      chips: of the pod.
      chip: from `CHIPS`.
    """
    compute, source = compute_seconds(
        forward_backward.flops,
        forward_backward.bytes_accessed,
        forward_backward.optimal_seconds,
        chip,
    )
    more = 0.0
    if full_step is not None:
        more = full_step.bytes_accessed - forward_backward.bytes_accessed
    return StepTime(
        compute=compute,
        source=source,
        update=max(0.0, more) / (chip.hbm_bandwidth / chip.cores),
        all_reduce=all_reduce_seconds(gradient_bytes, chips, chip),
    )


def days(seconds_per_step: float, steps: int) -> float:
    """Wall days of `steps` steps."""
    return seconds_per_step * steps / 86400.0


def largest_fitting(fits, start: int = 1, limit: int = 4096) -> int:
    """The largest n with `fits(n)`, by doubling and then halving the gap.

    Args:
      fits: called with a count; once false it stays false for larger ones.
      start: first count tried.
      limit: no count above it is tried.

    Returns:
      0 when not even `start` fits.
    """
    if not fits(start):
        return 0
    low, high = start, start * 2
    while high <= limit and fits(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def extrapolate(low, high, counts: tuple[int, int, int], chip: Chip):
    """What a step of more layers costs: a line through two.

    Layers are all alike, so every number but the compiler's freedom is a
    constant and so much per layer.

    Args:
      low, high: `lowering.Compiled` of fewer layers and of more.
      counts: their layers and those that are asked for.
      chip: for which whole seconds are added where they are missing.

    Returns:
      A `Compiled`; its compile seconds are those of both.
    """
    few, more, wanted = counts
    share = (wanted - few) / (more - few)
    both = [
        dataclasses.replace(
            c,
            optimal_seconds=0.0 if source == "roofline" else seconds,
        )
        for c in (low, high)
        for seconds, source in [
            compute_seconds(c.flops, c.bytes_accessed, c.optimal_seconds, chip)
        ]
    ]
    values = {}
    for field in dataclasses.fields(low):
        a, b = (getattr(c, field.name) for c in both)
        value = a + share * (b - a)
        values[field.name] = type(a)(round(value) if type(a) is int else value)
    values["compile_seconds"] = low.compile_seconds + high.compile_seconds
    return dataclasses.replace(low, **values)
