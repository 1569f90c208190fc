"""Relative effective context length (RECL) of a group of language models.

    python -m studies.language.effective_context --losses=a.npz,b.npz --output_dir=OUT

Transformer-XL, appendix C. The gain that a model has from a longer context is
measured against the best loss that any model of the group has with the short
one, on the tokens that are hardest there: a worse model has more to gain and
would else seem to use more context. Each file holds one model's losses, of
whatever kind (see `read_losses`), so groups can be formed without running
models again; `studies.language.context_losses` writes those of our models.
"""

import itertools
import os
import zipfile
from typing import NamedTuple

import numpy as np
from absl import flags

from common import figures, files
from common.errors import UserError
from flags import app

FLAGS = flags.FLAGS
# Shares of the hardest tokens that the paper reports.
FRACTIONS = (0.1, 0.5, 1.0)
THRESHOLD = 0.01
INTERVAL = (2.5, 97.5)


class Group(NamedTuple):
    """Losses of models on the same tokens.

    Attributes:
      models: N names.
      contexts: int [C], rising: tokens of context.
      losses: float64 [N, C, X], nats of each of X tokens.
    """

    models: tuple[str, ...]
    contexts: np.ndarray
    losses: np.ndarray


class Effective(NamedTuple):
    """RECL of every model of a group.

    Attributes:
      recl: int [N], tokens.
      at_end: bool [N], the gain never fell below the threshold: "at least".
      gains: float64 [N, C - 1], of the step from each context to the next.
    """

    recl: np.ndarray
    at_end: np.ndarray
    gains: np.ndarray


def hardest(baseline: np.ndarray, fraction: float) -> np.ndarray:
    """The share of tokens with the largest loss, at least one; indices.

    Args:
      baseline: [X], the best loss of the group at a context.
      fraction: 0 < share <= 1; of equal losses the first tokens are taken.
    """
    count = max(1, round(fraction * len(baseline)))
    return np.sort(np.argsort(-baseline, kind="stable")[:count])


def mean_losses(group: Group, fraction: float) -> np.ndarray:
    """f(c, c') of appendix C, [N, C, C]; nan below the diagonal.

    The mean, over the tokens that are hardest with context c, of the smaller
    of the group's best loss there and the model's loss with c' >= c.
    """
    n, c, _ = group.losses.shape
    best = group.losses.min(0)  # [C, X]
    result = np.full((n, c, c), np.nan)
    for short in range(c):
        chosen = hardest(best[short], fraction)
        for long in range(short, c):
            capped = np.minimum(
                best[short, chosen], group.losses[:, long, chosen]
            )
            result[:, short, long] = capped.mean(-1)
    return result


def effective_context(
    group: Group, fraction: float, threshold: float = THRESHOLD
) -> Effective:
    """RECL: the first context that the next one improves too little.

    Args:
      fraction: r, the share of the hardest tokens.
      threshold: relative gain below which a longer context does not count.
    """
    f = mean_losses(group, fraction)
    step = np.arange(len(group.contexts) - 1)
    now, then = f[:, step, step], f[:, step, step + 1]  # [N, C - 1]
    gains = -np.expm1(then - now)
    small = gains < threshold
    first = np.where(small.any(1), small.argmax(1), len(group.contexts) - 1)
    return Effective(group.contexts[first], ~small.any(1), gains)


def bootstrap(
    group: Group, fraction: float, threshold: float, rounds: int, seed: int
) -> np.ndarray:
    """95 % interval of each model's RECL over resampled tokens, [N, 2]."""
    rng = np.random.default_rng(seed)
    size = group.losses.shape[-1]
    lengths = []
    for _ in range(rounds):
        drawn = np.sort(rng.integers(size, size=size))
        sample = group._replace(losses=group.losses[..., drawn])
        lengths.append(effective_context(sample, fraction, threshold).recl)
    return np.percentile(lengths, INTERVAL, axis=0, method="nearest").T


def read_losses(
    path: str,
) -> tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """(name, contexts [C], losses [C, X], what the tokens are) of a file.

    An `.npz` with `losses`, nats of X tokens with each of C contexts, and
    `contexts`; `positions` of the tokens in their text, their ids (`tokens`)
    and the model's `name` may be left out. A model that cannot use more than
    some length repeats the losses of its longest.

    Raises:
      UserError: the file is no such npz, or a value is not usable.
    """
    wanted = f"{path}: wanted an npz with `losses` [contexts, tokens] and "
    wanted += "`contexts`"
    try:
        # NumPy leaves a file open that it opens and cannot read.
        with open(path, "rb") as f:
            data = np.load(f, allow_pickle=False)
            if isinstance(data, np.ndarray):
                raise ValueError("one array")
            arrays = {k: data[k] for k in data.files}
        for name in {"losses", "contexts"} & set(arrays):
            if arrays[name].dtype.kind not in "fiu":
                raise ValueError(f"`{name}` of {arrays[name].dtype}")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as e:
        raise UserError(f"{wanted}, found {e}") from e
    if not {"losses", "contexts"} <= set(arrays):
        raise UserError(f"{wanted}, found {sorted(arrays)}")
    losses = np.asarray(arrays["losses"], np.float64)
    contexts = np.asarray(arrays["contexts"])
    if losses.ndim != 2 or losses.shape[:1] != contexts.shape:
        raise UserError(
            f"{wanted} [contexts], found {losses.shape} and {contexts.shape}"
        )
    if len(contexts) < 2 or (np.diff(contexts) <= 0).any():
        raise UserError(
            f"{path}: wanted two or more rising `contexts`, found "
            f"{contexts.tolist()[:8]}"
        )
    if not losses.size or not np.isfinite(losses).all():
        raise UserError(f"{path}: `losses` holds a value that is not finite")
    about = {"positions": np.arange(losses.shape[1])} | arrays
    about = {k: about[k] for k in ("positions", "tokens") if k in about}
    for what, values in about.items():
        if values.shape != losses.shape[1:]:
            raise UserError(
                f"{path}: wanted {losses.shape[1]} `{what}`, found "
                f"{values.shape}"
            )
    stem = os.path.splitext(os.path.basename(path))[0]
    return str(arrays.get("name", stem)), contexts, losses, about


def read_group(paths: list[str]) -> Group:
    """The models of one group.

    Raises:
      UserError: none is given, contexts or tokens differ; see also `read_losses`.
    """
    if not paths:
        raise UserError("--losses is empty: give an npz per model")
    rows = [read_losses(path) for path in paths]
    known: dict[str, tuple[str, np.ndarray]] = {}  # of the first that has it
    for path, (_, contexts, _, about) in zip(paths, rows, strict=True):
        for what, theirs in {"contexts": contexts, **about}.items():
            first, ours = known.setdefault(what, (path, theirs))
            if not np.array_equal(ours, theirs):
                raise UserError(
                    f"{path}: its `{what}` are not those of {first}; the "
                    "models of a group must be measured on the same tokens"
                )
    contexts = rows[0][1]
    return Group(
        tuple(r[0] for r in rows), contexts, np.stack([r[2] for r in rows])
    )


def table(group: Group, rounds: int, seed: int, threshold: float) -> list:
    """Rows of the table: model, then RECL and its interval per fraction."""
    columns = []
    for fraction in FRACTIONS:
        measured = effective_context(group, fraction, threshold)
        bounds = bootstrap(group, fraction, threshold, rounds, seed)
        columns.append((measured, bounds))
    rows = [["model", *(f"r = {f}" for f in FRACTIONS)]]
    for i, name in enumerate(group.models):
        cells = []
        for measured, (low, high) in ((f, b[i]) for f, b in columns):
            least = ">= " if measured.at_end[i] else ""
            cells.append(f"{least}{measured.recl[i]} ({low} to {high})")
        rows.append([name, *cells])
    return rows


def perplexities(group: Group) -> list[list[str]]:
    """Rows of a table: model, then its perplexity with each context."""
    rows = [["model", *map(str, group.contexts)]]
    for name, losses in zip(group.models, group.losses, strict=True):
        rows.append([name, *(f"{p:.3f}" for p in np.exp(losses.mean(-1)))])
    return rows


def _about(group: Group) -> str:
    """What n is."""
    return f"One model each, n = {group.losses.shape[-1]} tokens. No bars."


def draw_gains(group: Group, fraction: float, folder: str) -> list[str]:
    """Figure 4 of the paper, a panel per model, as PNG and SVG; the paths."""
    f = np.exp(mean_losses(group, fraction))
    gains = np.einsum("ncc->nc", f)[:, :, None] - f
    columns = min(3, len(group.models))
    rows = -(-len(group.models) // columns)
    figure, axes = figures.new(
        rows, columns, figsize=(1.5 + 3 * columns, 1 + 3 * rows)
    )
    top = max(float(np.nanmax(gains)), 1e-9)
    ticks = range(len(group.contexts))
    for axis in axes.flat[len(group.models) :]:
        axis.set_axis_off()
    for name, gain, axis in zip(
        group.models, gains, axes.flat[: len(group.models)], strict=True
    ):
        image = axis.imshow(gain, vmin=0, vmax=top, origin="lower")
        axis.set_title(figures.literal(name), fontsize=10)
        axis.set(xlabel="longer context c'", ylabel="context c")
        axis.set_xticks(ticks, group.contexts, fontsize=8, rotation=90)
        axis.set_yticks(ticks, group.contexts, fontsize=8)
    figure.colorbar(image, ax=axes, label="perplexity gained from c to c'")
    figures.caption(
        figure,
        f"The hardest {fraction:.0%} of the tokens. {_about(group)}",
        "python -m studies.language.effective_context",
    )
    return figures.save(figure, os.path.join(folder, "relative_gain"))


def draw_perplexities(group: Group, folder: str) -> list[str]:
    """Figure 3 of the paper as PNG and SVG; the paths."""
    figure, [[axis]] = figures.new(figsize=(8, 4))
    for name, losses, marker in zip(
        group.models, group.losses, itertools.cycle("osD^v"), strict=False
    ):
        values = np.exp(losses.mean(-1))
        label = figures.literal(name)
        axis.plot(group.contexts, values, f"{marker}-", ms=5, label=label)
    axis.set(xlabel="context in tokens", ylabel="perplexity")
    figure.legend(loc="outside right upper", fontsize=9)
    figures.caption(
        figure, _about(group), "python -m studies.language.effective_context"
    )
    stem = os.path.join(folder, "perplexity_by_context")
    return figures.save(figure, stem)


def main() -> None:
    """Reads the files, prints the table, writes TSV and figures."""
    group = read_group(FLAGS.losses)
    print(
        f"{len(group.models)} models, {group.losses.shape[-1]} tokens, "
        f"contexts {group.contexts.tolist()}, threshold {FLAGS.threshold}; "
        "intervals: 95 %, tokens resampled"
    )
    rows = table(group, FLAGS.bootstrap, FLAGS.seed, FLAGS.threshold)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)))
    if FLAGS.output_dir:
        tables = {"recl": rows, "perplexity_by_context": perplexities(group)}
        for name, lines in tables.items():
            path = os.path.join(FLAGS.output_dir, f"{name}.tsv")
            text = "".join("\t".join(line) + "\n" for line in lines)
            files.write_text(path, text)
            print(f"wrote {path}")
        for path in (
            *draw_gains(group, FLAGS.fraction, FLAGS.output_dir),
            *draw_perplexities(group, FLAGS.output_dir),
        ):
            print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_list("losses", None, "One npz per model.", required=True)
    flags.DEFINE_string("output_dir", "", "Folder for table and figures.")
    flags.DEFINE_float(
        "threshold", THRESHOLD, "Smallest relative gain that counts."
    )
    flags.DEFINE_float(
        "fraction", FRACTIONS[0], "Share of hard tokens in the figure.", 0, 1
    )
    flags.DEFINE_integer("bootstrap", 200, "Resampled sets of tokens.", 1)
    flags.DEFINE_integer("seed", 0, "Of the resampling.")
    app.run(main)
