"""What a run says: a summary before, a line per host loop, one at the end."""

import math
import resource
import sys
import time
from collections.abc import Callable, Mapping

import tensorflow as tf
from tqdm import tqdm

from common.process.memory import GIB
from training.checkpointing.run_state import RunState
from training.optim import variable_groups
from training.run_options import OptimizerOptions
from training.strategy import describe


def clock(seconds: float) -> str:
    """h:mm:ss."""
    seconds = max(0, int(seconds))
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def peak_memory_gib() -> float:
    """Largest use so far: of the first GPU, without one of this process."""
    peak = 0
    if tf.config.list_physical_devices("GPU"):
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    if not peak:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024
    return peak / GIB


def start_lines(run: RunState, extra: list[str]) -> list[str]:
    """The summary before step 1."""
    options, learner = run.options, run.learner
    objective, split = learner.objective, learner.split
    config = objective.config
    sizes = {n: int(math.prod(v.shape)) for n, v in learner.variables.items()}
    o = options.optimizer
    start = "random weights"
    if run.restored_from:
        start = f"{run.restored_from}, step {run.start_step}"
    return [
        f"objective    {objective.name}",
        f"model        L={config.n_layer} D={config.d_model} "
        f"N={config.n_head} H={config.d_head} F={config.d_inner} "
        f"V={config.vocab_size} M={objective.memory_len} "
        f"dropout {config.dropout:g}/{config.dropatt:g}",
        f"strategy     {describe(learner.strategy)}, "
        f"{options.strategy.precision}"
        + (", XLA" if options.strategy.jit_compile else ""),
        f"batch        {split.batch_size} rows = {split.micro_batch_rows} x "
        f"{split.accumulation_steps} accumulation step(s) x {split.replicas} "
        "replica(s)" + _warmup_text(options),
        _optimizer_line(o),
        f"parameters   {sum(sizes.values()):,d} in {len(sizes)} variables",
        *variable_groups.describe(learner.groups, sizes, o),
        *extra,
        *([run.weights.line] if run.weights else []),
        f"start        {start}; to step {options.train_steps}",
    ]


def _optimizer_line(o: OptimizerOptions) -> str:
    mode = "AdamW" if o.weight_decay else "Adam (bias-corrected)"
    if o.optimizer == "stable_adamw":
        mode = "StableAdamW"
    clip = f"clipped at {o.clip:g}" if o.clip else "not clipped"
    return (
        f"optimizer    {mode}, rate {o.learning_rate:g} ({o.decay_method}, "
        f"warm-up {o.warmup_steps}), decay {o.weight_decay:g}, epsilon "
        f"{o.adam_epsilon:g}, {clip}"
    )


def _warmup_text(options) -> str:
    if not options.min_batch_size:
        return ""
    return (
        f", from {options.min_batch_size} rows on over "
        f"{options.batch_size_warmup_tokens} tokens"
    )


class Progress:
    """One line per host loop in a log, a bar on a terminal."""

    def __init__(
        self,
        style: str,
        start_step: int,
        train_steps: int,
        out: Callable[[str], None] = print,
    ):
        self._out = out
        self._style = style
        self._total = train_steps
        self._begin = time.monotonic()
        self._start = self._step = self._first = start_step
        self._bar = None
        if style == "auto" and sys.stderr.isatty():
            self._bar = tqdm(total=train_steps, initial=start_step, unit="step")

    def update(
        self,
        step: int,
        values: dict[str, float],
        tokens: float,
        wait: float,
        seconds: float,
    ) -> dict[str, float]:
        """Reports a host loop: tokens and steps per second, share of waiting.

        `values` are means over the loop, `loss` first, `seconds` of its steps
        alone; saves and evaluations between loops count for the time that is
        left, not for the speed.
        """
        now = time.monotonic()
        seconds = max(seconds, 1e-9)
        done = step - self._step
        speed = {
            "tokens_per_second": tokens / seconds,
            "steps_per_second": done / seconds,
            "host_wait_fraction": wait / seconds,
        }
        # The first loop traces and compiles; it would spoil the estimate.
        rate = (now - self._begin) / max(step - self._start, 1)
        first = self._step == self._first
        if first:
            self._begin, self._start = now, step
        self._step = step
        if self._style == "none":
            return speed
        text = " | ".join(
            [
                *(f"{name} {value:.4g}" for name, value in values.items()),
                f"{speed['tokens_per_second']:,.0f} tokens/s",
                f"wait {100 * speed['host_wait_fraction']:.1f}%",
            ]
        )
        if self._bar is not None:
            self._bar.update(done)
            self._bar.set_postfix_str(text)
        else:
            left = "after the next line"
            if not first or step == self._total:
                left = clock(rate * (self._total - step))
            self._out(f"step {step}/{self._total} | {text} | ETA {left}")
        return speed

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


def shown_values(
    means: dict[str, float], names: Mapping[str, str]
) -> dict[str, float]:
    """The columns of a progress line by `Objective.shown_metrics`, in order."""
    shown = {"loss": "loss"} | dict(names)
    shown |= {"learning_rate": "lr", "gradient_norm": "gnorm"}
    return {short: means[n] for n, short in shown.items() if n in means}


def cost_line(step: int, state: RunState, seconds: float) -> str:
    """What a whole run costs at the pace of this start, in device-days.

    The unit of published comparisons: start, saves and evaluations included.
    """
    devices = state.learner.split.replicas
    each = seconds / max(step - state.start_step, 1)
    return (
        f"cost: {step:,d} steps x {each:.3g} s x {devices} device(s) = "
        f"{step * each * devices / 86400:.3g} device-days"
    )
