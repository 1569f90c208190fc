"""Which group a variable belongs to, by its canonical name.

The rules must cover every variable: weight decay and layer-wise learning
rates that silently miss a new layer are worse than an error.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from common.errors import UserError
from common.heads import HEADS
from common.references import resolve
from modeling.encoders.registry import ENCODERS
from training.run_options import OptimizerOptions

EMBEDDING = -1
TOP = None


def head_pattern() -> str:
    """The scopes of all heads; the original spells the pooler's its own way."""
    scopes = [scope for row in HEADS.values() for scope in row.scopes]
    # Behind it the task, where there are several.
    scopes += [r"sequnece_summary(_[\w.-]+)?", "sequence_summary"]
    return rf"(model/)?({'|'.join(scopes)})/(.*/)?"


def rules() -> list[tuple[str, bool, str]]:
    """(pattern of the whole name, decayed, place); the first match counts.

    Encoders have their own; what heads have is above all layers.
    """
    patterns = []
    for spec in ENCODERS.values():
        patterns += resolve(spec.groups)
    heads = head_pattern()
    return patterns + [
        (heads + r"LayerNorm/(gamma|beta)", False, "top"),
        (heads + r"(\w+_)?bias", False, "top"),
        (heads + r"kernel", True, "top"),
    ]


@dataclasses.dataclass(frozen=True)
class Group:
    """How one variable is updated."""

    name: str
    decayed: bool  # decoupled weight decay applies
    # layer number from 0, `EMBEDDING`, or `TOP` (heads and what all layers
    # share)
    layer: int | None
    lr_multiplier: float = 1.0  # of the update and of the decay
    # of the clipped gradient ("gradient" style only)
    gradient_multiplier: float = 1.0
    frozen: bool = False  # gets no gradient, no slots and no update
    # number of the only task whose batches train it, of several tasks; None =
    # every batch does
    task: int | None = None


def _place_of(name: str) -> tuple[int | None, bool, str]:
    for pattern, decayed, group in rules():
        match = re.fullmatch(pattern, name)
        if not match:
            continue
        if group in ("layer", "bias_of_layer"):
            return int(match["layer"]), decayed, group
        return EMBEDDING if group == "embedding" else TOP, decayed, group
    raise KeyError(name)


def group_of(name: str, n_layer: int, options: OptimizerOptions) -> Group:
    """The group of one variable; KeyError where no rule covers `name`."""
    layer, decayed, group = _place_of(name)
    if group == "shared":
        _refuse_layers(name, options)
    a = options.lr_layer_decay_rate
    lr_multiplier = gradient_multiplier = 1.0
    if options.lr_layer_decay_style == "learning_rate":
        if layer is not TOP:
            # Layer m = layer + 1 of L has a^(L - m); the embeddings a^L.
            lr_multiplier = a ** (n_layer - 1 - layer)
    elif group == "layer":
        gradient_multiplier = a ** (n_layer - 1 - layer)
    frozen = (
        options.freeze_layers > 0
        and layer is not TOP
        and layer < options.freeze_layers
    )
    return Group(
        name, decayed, layer, lr_multiplier, gradient_multiplier, frozen
    )


def _refuse_layers(name: str, options: OptimizerOptions) -> None:
    """UserError: a setting differs by layer, a variable belongs to several."""
    asked = {
        "--lr_layer_decay_rate": options.lr_layer_decay_rate != 1.0,
        "--freeze_layers": options.freeze_layers > 0,
    }
    for flag in (flag for flag, on in asked.items() if on):
        raise UserError(
            f"{flag} needs layers with weights of their own, but `{name}` "
            "belongs to several: leave it out with this encoder"
        )


def build_groups(
    names: Iterable[str],
    n_layer: int,
    options: OptimizerOptions,
    tasks: Mapping[str, int] | None = None,
) -> dict[str, Group]:
    """The group of every variable, in the order of `names`.

    `tasks` are name -> `Group.task`, for variables of one of several tasks.
    Raises UserError: a variable is covered by no rule, or more layers shall be
    frozen than there are.
    """
    if options.freeze_layers > n_layer:
        raise UserError(
            f"`freeze_layers` is {options.freeze_layers} but the model has "
            f"{n_layer} layers"
        )
    groups, uncovered = {}, []
    for name in names:
        try:
            group = group_of(name, n_layer, options)
        except KeyError:
            uncovered.append(name)
            continue
        task = (tasks or {}).get(name)
        groups[name] = dataclasses.replace(group, task=task)
    if uncovered:
        raise UserError(
            "no optimizer rule covers the variables "
            f"{', '.join(sorted(uncovered))}: add one to the encoder's GROUPS or "
            "to the scopes of the head in common/heads.py"
        )
    return groups


def describe(
    groups: dict[str, Group], sizes: dict[str, int], options: OptimizerOptions
) -> list[str]:
    """The table of groups for the log: one line per place and decay."""
    totals: dict[tuple, list[int]] = {}
    for name, group in groups.items():
        # What is updated alike is one line.
        decayed = group.decayed and options.weight_decay > 0
        key = (group.layer, decayed and not group.frozen, group.frozen)
        entry = totals.setdefault(key, [0, 0, name])
        entry[0] += 1
        entry[1] += sizes[name]
    lines = []

    def order(item):
        layer, decayed, _ = item[0]
        return (layer is TOP, layer if layer is not TOP else 0, not decayed)

    for (layer, decayed, frozen), (count, size, example) in sorted(
        totals.items(), key=order
    ):
        place = {EMBEDDING: "embeddings", TOP: "top"}.get(
            layer, f"layer {layer}"
        )
        group = groups[example]
        rate = options.learning_rate * group.lr_multiplier
        decay = options.weight_decay if decayed else 0.0
        state = "frozen" if frozen else f"rate {rate:.3g} decay {decay:g}"
        lines.append(
            f"  {place:<10} {count:4d} variables {size:12,d} weights  {state}"
        )
    return lines
