"""What a step costs: from two runs, in seconds and in CPU seconds."""

import dataclasses
from typing import Any

# Of the result of a job; the second where the system tells it (Linux does).
WALL, CPU = "seconds", "cpu_seconds"


@dataclasses.dataclass(frozen=True)
class Speed:
    """What a kind of job takes: `start` + steps * `step` seconds.

    Attributes:
      cpu: CPU seconds of a step; None = not known.
    """

    start: float
    step: float
    cpu: float | None = None

    @property
    def pace(self) -> float:
        """What a budget is divided by: other work does not change it."""
        return self.step if self.cpu is None else self.cpu

    def over(self, other: "Speed") -> float:
        """Steps of another kind in the time of one of this; both of one clock.

        >>> Speed(0.0, 6.0, 3.0).over(Speed(0.0, 2.0)), Speed(0.0, 6.0).pace
        (3.0, 6.0)
        """
        if None in (self.cpu, other.cpu):
            return self.step / other.step
        return self.cpu / other.cpu


def to_go(
    missing: list[tuple[str, int]], speeds: dict[str, Speed], workers: int
) -> str:
    """What (kind, steps) of jobs take, in words; "" where nothing was timed."""
    if not speeds:
        return ""
    known = [(speeds[kind], n) for kind, n in missing if kind in speeds]
    hours = sum(of.start + n * of.step for of, n in known) / 3600 / workers
    line = f": {hours:.2f} hours to go by measured steps"
    if unknown := len(missing) - len(known):
        named = "1 job" if unknown == 1 else f"{unknown} jobs"
        line += f", and {named} whose speed is not known"
    return line


def measured(short: dict, long: dict, steps: int) -> Speed:
    """From the results of two runs, of `steps` and of three times as many."""
    step = _per_step(short, long, WALL, 2 * steps)
    start = max(short[WALL] - steps * step, 0.0)
    known = CPU in short and CPU in long
    cpu = _per_step(short, long, CPU, 2 * steps) if known else None
    return Speed(start, step, cpu)


def _per_step(short: dict, long: dict, name: str, more: int) -> float:
    return max(long[name] - short[name], 1e-3) / more


def kind_of(flags: dict[str, Any]) -> str:
    """What a step of a pretraining costs by, in a few words.

    >>> kind_of({"model_type": "bert", "next_sentence": True})
    'pretrain-bert-next_sentence'
    """
    parts = ["pretrain", flags.get("model_type", "xlnet")]
    parts += [str(flags[k]) for k in ("objective", "mlm_stream") if k in flags]
    if flags.get("mem_len") == 0:
        parts.append("no_memory")
    if flags.get("next_sentence"):  # BERT's pairs are made while reading
        parts.append("next_sentence")
    return "-".join(parts)
