"""Draws what the heads of a model attend to: Transformer-XL, appendix D.

    python -m studies.language.attention_plots --checkpoint=OUT/model \\
        --data_dir=OUT/words --output_dir=OUT/attention
    python -m studies.language.attention_plots --checkpoint=XLNET \\
        --text="It cost 12 francs." --output_dir=OUT/attention

With streams (a left-to-right model): `mean` is the paper's Figure 5, mean
attention of all heads by relative position; `terms` Figure 7, the terms (a), (b)
and (d) of the scores alone; `heads` Figure 6, chosen heads (--heads, numbered
layer after layer from 0) at a drawn place. With --text (XLNet): both streams
under a drawn factorization order, means by relative position and chosen heads.
Every figure is a PNG and an SVG, and its numbers are a TSV beside it.

Letters: T segment length, M memory, L layers, N heads.
"""

import os

import numpy as np
from absl import flags

from common import figures, files
from common.errors import UserError
from flags import app, flag_values
from studies.language import attention_terms

FLAGS = flags.FLAGS
_COMMAND = "python -m studies.language.attention_plots"
_ALL_NAMED = 40  # rows of a figure at most that are named one by one
_TITLES = {
    "whole": "attention",
    "a": "(a) content",
    "b": "(b) content and position",
    "d": "(d) position",
}


def means(
    model, ids: np.ndarray, segment: int, most: int
) -> tuple[dict[str, np.ndarray], int]:
    """Mean attention by distance, of whole scores and of terms alone.

    Args:
      model: a `CausalLanguageModel` with memory and `same_length`.
      ids: int [n], read from an empty memory; what fills it does not count.
      segment: T.
      most: tokens that count at most, rounded up to segments.

    Returns:
      ({"whole", "a", "b", "d"} -> [L * N, M + 1], tokens that counted).

    Raises:
      UserError: no token has a full memory before it.
    """
    slots = model.config.mem_len
    sums: dict[str, np.ndarray] = {}
    memory, count = None, 0
    for start in range(0, len(ids) - segment + 1, segment):
        if count >= most:
            break
        part = ids[np.newaxis, start : start + segment]
        with attention_terms.observed(model) as layers:
            memory = model(part, memory=memory).new_memory
        if start < slots:
            continue
        count += segment
        alone = [one.alone() for one in layers]
        rows = {
            "whole": [one.probabilities() for one in layers],
            **{
                name: [terms[name] for terms in alone]
                for name in ("a", "b", "d")
            },
        }
        for name, weights in rows.items():
            weights_by_distance = np.concatenate(
                [w[:, 0] for w in weights]
            )  # [L*N, T, K]
            weights_by_distance = attention_terms.by_distance(
                weights_by_distance, slots, slots
            ).sum(1)
            sums[name] = sums.get(name, 0.0) + weights_by_distance
    if not count:
        raise UserError(
            f"wanted more than {slots} tokens, which fill the memory, and a "
            f"segment of {segment}; found {len(ids)}"
        )
    return {name: total / count for name, total in sums.items()}, count


def two_streams(model, ids: np.ndarray, seed: int) -> dict[str, list]:
    """XLNet's probabilities under a drawn order, every token a target.

    Args:
      model: an XLNet with all weights.
      ids: int [T].

    Returns:
      "content", "query" -> L arrays [N, T, T].
    """
    length = len(ids)
    ranks = np.random.default_rng(seed).permutation(length)
    with attention_terms.observed(model) as layers:
        model(
            ids[np.newaxis].astype(np.int32),
            ranks=ranks[np.newaxis].astype(np.int32),
            is_target=np.ones([1, length], np.float32),
            target_positions=np.arange(length, dtype=np.int32)[np.newaxis],
        )
    weights = [one.probabilities()[:, 0] for one in layers]
    return {"content": weights[::2], "query": weights[1::2]}


def _write(stem: str, rows: list[list]) -> str:
    """Numbers of a figure as STEM.tsv; the path."""
    path = f"{stem}.tsv"
    lines = (
        "\t".join(f"{v:.5g}" if isinstance(v, float) else str(v) for v in row)
        for row in rows
    )
    files.write_text(path, "\n".join(lines) + "\n")
    return path


def draw_means(
    rows: dict[str, np.ndarray],
    offsets: np.ndarray,
    heads: int,
    stem: str,
    about: str,
) -> list[str]:
    """Rows of all heads by relative position, a panel for each entry.

    Args:
      rows: title -> [L * N, len(offsets)]; NaN stays blank.
      offsets: relative positions of the columns.
      heads: N, for the labels.
      stem: path of the figure without its ending.
      about: what the mean is of, for the caption.
    """
    from matplotlib.colors import LogNorm

    count = len(next(iter(rows.values())))
    # Numbers from 1 as in the titles of chosen heads: layer, head of the layer.
    named = [f"{i // heads + 1}.{i % heads + 1}" for i in range(count)]
    shown = range(0, count, 1 if count <= _ALL_NAMED else heads)
    figure, axes = figures.new(
        1,
        len(rows),
        figsize=(1.5 + 4 * len(rows), 2 + min(0.11 * count + 1.5, 20)),
    )
    top = max(float(np.nanmax(r)) for r in rows.values())
    norm = LogNorm(top * 1e-4, top, clip=True)
    ends = (offsets[0] - 0.5, offsets[-1] + 0.5, count - 0.5, -0.5)
    for (title, values), axis in zip(rows.items(), axes[0], strict=True):
        image = axis.imshow(
            values,
            norm=norm,
            aspect="auto",
            interpolation="nearest",
            extent=ends,
        )
        axis.set(title=title, xlabel="relative position")
        labels = [named[i] for i in shown] if axis is axes[0, 0] else []
        axis.set_yticks(shown if labels else [], labels, fontsize=8)
        for line in range(heads, count, heads):
            axis.axhline(line - 0.5, color="white", linewidth=1)
    axes[0, 0].set_ylabel("layer.head")
    figure.colorbar(image, ax=axes, label="mean attention")
    figures.caption(figure, f"{about} A row is a head.", _COMMAND)
    lines = [["panel", "layer.head", *map(str, offsets)]]
    for title, values in rows.items():
        lines += [
            [title, name, *map(float, own)]
            for name, own in zip(named, values, strict=True)
        ]
    return [_write(stem, lines), *figures.save(figure, stem)]


def draw_heads(
    weights: dict[str, np.ndarray],
    rows: list[str],
    columns: list[str],
    stem: str,
    share: float = 0.2,
) -> list[str]:
    """Matrices of chosen heads with tokens as labels.

    The largest `share` of the visible keys of a row is red, as in Figure 6.

    Args:
      weights: title -> [Q, K].
      stem: path of the figure without its ending.
    """
    from matplotlib.colors import ListedColormap

    height = 0.8 + 0.22 * len(rows)
    figure, axes = figures.new(
        len(weights),
        1,
        figsize=(
            2.2 + 0.22 * len(columns),
            0.6 + len(weights) * (height + 0.12 * max(map(len, columns))),
        ),
    )
    colours = ListedColormap(["white", "#c7d7ea", "#d62728"])
    for (title, matrix), axis in zip(weights.items(), axes[:, 0], strict=True):
        seen = matrix > 0  # what is hidden has exactly none
        ranks = np.argsort(np.argsort(-matrix, -1), -1)
        least = np.ceil(share * seen.sum(-1, keepdims=True))
        axis.imshow(
            seen.astype(int) + (seen & (ranks < least)),
            cmap=colours,
            vmin=0,
            vmax=2,
            aspect="auto",
            interpolation="nearest",
        )
        axis.set_title(title, fontsize=10)
        keys, queries = (list(map(figures.literal, x)) for x in (columns, rows))
        axis.set_xticks(range(len(keys)), keys, rotation=90, fontsize=8)
        axis.set_yticks(range(len(queries)), queries, fontsize=8)
        axis.set(xlabel="key", ylabel="query")
    figures.caption(
        figure,
        "One text (n = 1). White: hidden. Blue: visible.",
        f"Red: the {share:.0%} of a row's visible keys with the largest "
        "attention.",
        _COMMAND,
    )
    lines = [["panel", "query", *columns]]
    for title, matrix in weights.items():
        lines += [
            [title, token, *map(float, own)]
            for token, own in zip(rows, matrix, strict=True)
        ]
    return [_write(stem, lines), *figures.save(figure, stem)]


def draw_streams(
    streams: dict[str, list],
    tokens: list[str],
    heads: list[int],
    folder: str,
) -> list[str]:
    """Means by relative position and chosen heads of both streams; paths."""
    length, paths = len(tokens), []
    offsets = np.arange(1 - length, length)
    for name, layers in streams.items():
        whole = np.concatenate(layers)  # [L * N, T, T]
        per_layer = len(layers[0])
        mean = attention_terms.around(whole)
        # Blank: under this order no token may look so far.
        mean[:, ~mean.any(0)] = np.nan
        paths += draw_means(
            {f"{name} stream": mean},
            offsets,
            per_layer,
            os.path.join(folder, f"{name}_mean"),
            f"Mean over the {length} tokens of one text (n = 1).",
        )
        chosen = {
            f"{name} stream, {_name(h, per_layer)}": whole[h] for h in heads
        }
        stem = os.path.join(folder, f"{name}_heads")
        paths += draw_heads(chosen, tokens, tokens, stem)
    return paths


def _name(head: int, per_layer: int) -> str:
    layer, own = divmod(head, per_layer)
    return f"layer {layer + 1}, head {own + 1} (--heads={head})"


def _heads(count: int) -> list[int]:
    """--heads, or one each of the first, the middle and the last layer."""
    chosen = list(flag_values.whole_numbers("heads", FLAGS.heads))
    if any(not 0 <= h < count for h in chosen):
        raise UserError(
            f"--heads must lie in 0..{count - 1}, received "
            f"{','.join(FLAGS.heads)}"
        )
    return chosen or sorted({0, count // 2, count - 1})


def draw_place(slots: int, count: int, segment: int, seed: int) -> int:
    """Where a segment of `count` tokens begins, behind a full memory.

    There is one place alone where no more tokens follow the memory than T.
    """
    end = max(count - segment, slots + 1)
    return int(np.random.default_rng(seed).integers(slots, end))


def streams_of_text(folder: str) -> list[str]:
    """Draws a left-to-right model on a split."""
    from data.language_modeling import run_data
    from data.language_modeling.stream import TokenStream
    from modeling.checkpoints import restore
    from modeling.heads.causal_lm import CausalLanguageModel

    data = run_data.open_data(FLAGS.data_dir)
    config = restore.find_config(FLAGS.checkpoint)
    data.check_model(config.extra, "the model")
    slots = FLAGS.mem_len or config.mem_len or FLAGS.seq_len
    config = config.replace(
        mem_len=slots, same_length=True, memory_start="hidden"
    )
    model = CausalLanguageModel(config)
    restore.restore(model, FLAGS.checkpoint, require="all")
    stream = TokenStream(data.manifest, FLAGS.split)
    most = min(len(stream), FLAGS.tokens + slots + 2 * FLAGS.seq_len)
    ids = stream.read(0, most)
    mean_weights, tokens = means(model, ids, FLAGS.seq_len, FLAGS.tokens)
    print(f"means over {tokens} tokens of {FLAGS.split}, M = {slots}")
    shown = {
        _TITLES[name]: rows[:, ::-1] for name, rows in mean_weights.items()
    }
    whole = {_TITLES["whole"]: shown.pop(_TITLES["whole"])}
    offsets = np.arange(-slots, 1)
    paths = []
    for name, rows in (("mean", whole), ("terms", shown)):
        stem = os.path.join(folder, name)
        about = f"Mean over n = {tokens} tokens of {FLAGS.split}, one model."
        paths += draw_means(rows, offsets, config.n_head, stem, about)
    position = draw_place(slots, len(ids), FLAGS.seq_len, FLAGS.seed)
    memory = model(ids[np.newaxis, position - slots : position]).new_memory
    with attention_terms.observed(model) as layers:
        model(
            ids[np.newaxis, position : position + FLAGS.seq_len], memory=memory
        )
    whole = np.concatenate([one.probabilities()[:, 0] for one in layers])
    words = [
        data.vocabulary.symbol(int(i))
        for i in ids[position - slots : position + FLAGS.seq_len]
    ]
    chosen = {_name(h, config.n_head): whole[h] for h in _heads(len(whole))}
    stem = os.path.join(folder, "heads")
    return paths + draw_heads(chosen, words[slots:], words, stem)


def streams_of_xlnet(folder: str) -> list[str]:
    """Draws an XLNet on --text."""
    from data.text.tokenizer import Tokenizer
    from modeling import PretrainingModel
    from modeling.checkpoints import restore
    from modeling.encoders.registry import require

    config = restore.find_config(FLAGS.checkpoint)
    require(config, "query_stream", "--text")
    beside = FLAGS.checkpoint
    if not os.path.isdir(beside):
        beside = os.path.dirname(beside)
    path = FLAGS.spiece_model_file or os.path.join(beside, "spiece.model")
    tokenizer = Tokenizer(path)
    ids = np.array(tokenizer.encode(FLAGS.text))
    if len(ids) < 2:
        raise UserError("--text wants two pieces or more")
    model = PretrainingModel(config)
    restore.restore(model, FLAGS.checkpoint, require="encoder")
    streams = two_streams(model, ids, FLAGS.seed)
    heads = _heads(config.n_layer * config.n_head)
    tokens = [tokenizer.id_to_piece(int(i)) for i in ids]
    return draw_streams(streams, tokens, heads, folder)


def main() -> None:
    """Draws the figures of one model."""
    if bool(FLAGS.data_dir) == bool(FLAGS.text):
        raise UserError(
            "give --data_dir (a left-to-right model) or --text (an XLNet)"
        )
    files.make_directory(FLAGS.output_dir)
    draw = streams_of_text if FLAGS.data_dir else streams_of_xlnet
    for path in draw(FLAGS.output_dir):
        print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_string("checkpoint", None, "The model.", required=True)
    flags.DEFINE_string("output_dir", None, "Takes figures.", required=True)
    flags.DEFINE_string("data_dir", "", "Streams of a left-to-right model.")
    flags.DEFINE_string("split", "valid", "Which of them.")
    flags.DEFINE_integer("tokens", 2000, "That means are taken of.", 1)
    flags.DEFINE_integer("seq_len", 32, "T.", 1)
    flags.DEFINE_integer("mem_len", None, "M. Default: the model's, or T.", 1)
    flags.DEFINE_string("text", "", "Of an XLNet.")
    flags.DEFINE_string("spiece_model_file", "", "Default: beside the model.")
    flags.DEFINE_list("heads", [], "Numbers from 0, layer after layer.")
    flags.DEFINE_integer("seed", 0, "Of the place, or of the order.", 0)
    app.run(main)
