"""How much memory an evaluation pays for: Transformer-XL, section 4.3.

The memory is raised until perplexity falls by less than a share of itself;
the shortest memory that was worth it is the model's attention length.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable
from typing import NamedTuple

from common import figures, files, locks, summary
from common.errors import UserError
from modeling.checkpoints.restore import Source, content_digest
from training import loop
from training.checkpointing.checkpoints import weights_to_read
from training.jobs.causal_lm_options import CausalLMOptions
from training.run import TrainRequest

RESULTS = "sweep.json"
_COLUMNS = (
    ("mem_len", "memory", "{}"),
    ("attention_len", "attention length", "{}"),
    ("clamp_len", "clamp_len", "{}"),
    ("same_length", "same_length", "{}"),
    ("perplexity", "perplexity", "{:.4f}"),
    ("seconds_per_token", "seconds per token", "{:.3g}"),
)


@dataclasses.dataclass(frozen=True)
class Point:
    """One evaluation."""

    mem_len: int
    # keys that a token sees at most: M + 1 with `same_length`, else M + T
    attention_len: int
    clamp_len: int  # as evaluated
    same_length: bool  # as evaluated
    nats: float
    perplexity: float
    seconds_per_token: float  # median step over its tokens
    predicted: int


class Asked(NamedTuple):
    """What is evaluated."""

    request: TrainRequest
    segment: int  # T


class _Kept:
    """Points that were evaluated before, of the same model on the same text."""

    def __init__(self, folder: str, identity: dict):
        self._path = os.path.join(folder, RESULTS)
        self._identity = identity
        self._rows: dict[str, dict] = {}
        if files.exists(self._path):
            saved = files.read_json_object(self._path, "remove it")
            if saved.get("identity") == identity:
                self._rows = saved.get("points")
                self._check_rows()

    def _check_rows(self) -> None:
        """Raises UserError: they are no points, as after a change by hand."""
        rows, names = self._rows, {f.name for f in dataclasses.fields(Point)}
        listed = rows.values() if isinstance(rows, dict) else [None]
        for row in listed:
            if not isinstance(row, dict) or set(row) != names:
                raise UserError(
                    f"{self._path}: wanted `points` with the fields "
                    f"{sorted(names)}, found {str(row or rows)[:60]}; remove it"
                )

    def once(self, name: str, work: Callable[[], Point]) -> Point:
        """The point of a name, evaluated where it is not there."""
        if name not in self._rows:
            self._rows[name] = dataclasses.asdict(work())
            files.write_json(
                self._path,
                {"identity": self._identity, "points": self._rows},
            )
        return Point(**self._rows[name])

    def conclude(self, **summary) -> None:
        """Adds what came of it."""
        files.write_json(
            self._path,
            {
                "identity": self._identity,
                "points": self._rows,
                **summary,
            },
        )


def sweep(
    request_of: Callable[[dict], Asked],
    options: CausalLMOptions,
    segment: int,
) -> list[Point]:
    """Evaluates with rising memory, writes table and figure; the points.

    The first point is the model as it was trained, with its T; `segment` is
    that of all others. `request_of` has changes of the configuration, {} = as
    it was trained. Killed, the same call goes on after the last point. Raises
    UserError: no checkpoint, or another process works in the folder.
    """
    request = request_of({}).request
    model, run = request.objective.config, request.options
    folder = options.sweep_dir or os.path.join(
        run.model_dir, f"sweep_{options.eval_split}"
    )
    # A training that goes on beside the sweep saves others.
    source = weights_to_read(run)
    identity = _identity(request, options, segment, source.path)
    files.make_directory(folder)
    with locks.held(folder):
        kept = _Kept(folder, identity)

        def point(**changes) -> Point:
            own = request_of(changes)
            name = "/".join(f"{k}={v}" for k, v in changes.items())
            return kept.once(name or "trained", lambda: _measure(*own, source))

        points = [point()]
        request.say(_line(points[0]))
        if model.bound_to_segment and not model.mem_len:
            request.say(
                f"encoding {model.encoding!r} without memory sees its own "
                "segment only: there is nothing to raise"
            )
        else:
            points += _rising(point, options, model, segment, request.say)
        _write(points, folder, request.say)
        _conclude(points, options.sweep_gain, kept, request.say)
    return points


def _identity(
    request: TrainRequest,
    options: CausalLMOptions,
    segment: int,
    checkpoint: str,
) -> dict:
    """Everything that a number depends on: others are not taken for it."""
    run = request.options
    facts = {
        "checkpoint": checkpoint,
        "weights": content_digest(checkpoint),
        "model": request.objective.config.to_dict(),
        "data": request.must_match,
        "split": options.eval_split,
        "segment": segment,
        "batch": run.eval_batch_size,
        "steps": run.eval_steps,
        "precision": run.strategy.precision,
        "protocol": options.protocol,
        "mark_pairs": options.count_mark_pairs,
        "changes": options.eval_changes,
    }
    return json.loads(json.dumps(facts))


def _rising(point, options, model, segment, say) -> list[Point]:
    """Points until one gains too little."""
    step, points = options.sweep_step or segment, []
    if step > options.sweep_max:
        raise UserError(
            f"--sweep_max={options.sweep_max} is less than the first step, "
            f"{step}: give a --sweep_step"
        )
    clamp_len = options.eval_changes.get("clamp_len", model.clamp_len)
    clamps = options.sweep_clamp_lens or (clamp_len,)
    same = options.eval_changes.get("same_length", True)
    before = math.inf
    for mem_len in range(step, options.sweep_max + 1, step):
        row = [
            point(mem_len=mem_len, clamp_len=clamp, same_length=same)
            for clamp in clamps
        ]
        for one in row:
            say(_line(one))
        points += row
        now = min(p.perplexity for p in row)
        if before - now < options.sweep_gain * before:
            return points
        before = now
    say(f"memory {options.sweep_max} (--sweep_max) and still falling")
    return points


def _measure(request: TrainRequest, segment: int, source: Source) -> Point:
    config = request.objective.config
    result = loop.evaluate(
        request.objective,
        request.eval_input_fn,
        request.options,
        checkpoint=source,
    )
    nats = result.metrics["lm_loss"]
    predicted = round(result.counts["lm_loss"])
    if not predicted:
        raise UserError("the split holds no token to predict")
    memory = config.mem_len or 0
    tokens = request.options.eval_batch_size * segment
    return Point(
        mem_len=memory,
        attention_len=memory + (1 if config.same_length else segment),
        clamp_len=config.clamp_len,
        same_length=config.same_length,
        nats=nats,
        perplexity=summary.perplexity(nats),
        seconds_per_token=result.step_seconds / tokens,
        predicted=predicted,
    )


def best(points: list[Point], gain: float) -> Point:
    """The one with the shortest attention whose perplexity cannot be beaten.

    Beaten is what another point has a smaller perplexity than by more than
    the share `gain`.
    """
    least = min(p.perplexity for p in points)
    good = [p for p in points if p.perplexity * (1 - gain) <= least]
    return min(good, key=lambda p: (p.attention_len, p.perplexity))


def _conclude(points: list[Point], gain: float, kept: _Kept, say) -> None:
    """Keeps and says what came of it, as Table 5 has it."""
    best_point = best(points, gain)
    least = min(p.perplexity for p in points)
    kept.conclude(
        init=points[0].perplexity,
        best=least,
        attention_len=best_point.attention_len,
    )
    say(
        f"init {points[0].perplexity:.4f}, best {least:.4f}, within "
        f"{gain:.1%} at attention length {best_point.attention_len}"
    )


def _line(point: Point) -> str:
    return ", ".join(
        f"{title} {form.format(getattr(point, name))}"
        for name, title, form in _COLUMNS
    )


def _write(points: list[Point], folder: str, say) -> None:
    """The table as TSV, the figure, and what came of it."""
    lines = ["\t".join(title for _, title, _ in _COLUMNS)]
    lines += [
        "\t".join(form.format(getattr(p, name)) for name, _, form in _COLUMNS)
        for p in points
    ]
    path = os.path.join(folder, "sweep.tsv")
    files.write_text(path, "\n".join(lines) + "\n")
    drawn = _draw(points, os.path.join(folder, "sweep"))
    for written in (path, *drawn):
        say(f"wrote {written}")


def _draw(points: list[Point], stem: str) -> list[str]:
    figure, [[left, right]] = figures.new(1, 2, figsize=(9, 3.6))
    kinds = dict.fromkeys((p.clamp_len, p.same_length) for p in points)
    for clamp, same in kinds:
        own = [
            p for p in points if (p.clamp_len, p.same_length) == (clamp, same)
        ]
        label = f"clamp_len {clamp}" if clamp > 0 else "not clamped"
        label += "" if same else ", as trained"
        for axis, name in ((left, "perplexity"), (right, "seconds_per_token")):
            axis.plot(
                [p.attention_len for p in own],
                [getattr(p, name) for p in own],
                "o-",
                label=label,
            )
    left.set(xlabel="attention length", ylabel="perplexity")
    right.set(xlabel="attention length", ylabel="seconds per token")
    left.legend()
    figures.caption(
        figure, "One model, n = 1. No bars.", "python run_lm.py --mode=sweep"
    )
    return figures.save(figure, stem)
