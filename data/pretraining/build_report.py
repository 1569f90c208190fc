"""What a finished build says of itself."""

from common.contract.symbols import MANY_UNKNOWN
from common.errors import UserError
from data.pretraining.manifest import PretrainingManifest, make_format
from data.pretraining.options import SPLITS, BuildOptions
from data.pretraining.sampling.token_stream import MAX_WORD_PIECES

# More lost targets than this get a line that says what to do.
_LOSS = 0.01
_CHANCE = 3  # standard deviations, as of independent targets
_LEFT_OUT = ("short", "symbols", "duplicate", "weight")


def check_empty(manifest: PretrainingManifest, options: BuildOptions) -> None:
    """UserError where over `max_empty_share` of the train records are empty.

    They would fill training with empty rows.
    """
    share = manifest.empty_share("train")
    if share <= options.max_empty_share:
        return
    blocks = len(manifest.text_sha256)
    size = manifest.segments_per_lane["train"]
    raise UserError(
        f"{share:.1%} of the train records are empty, wanted at most "
        f"--max_empty_share={options.max_empty_share}: each of {blocks} blocks "
        f"is filled up to whole lanes of {size} segments; in another folder "
        "take fewer --segments_per_lane or more --block_megabytes, or continue "
        f"here with --max_empty_share={min(share + 0.01, 1):.2f}"
    )


def check_targets(manifest: PretrainingManifest) -> None:
    """UserError where no train record has a target: nothing can be learnt."""
    if any(f.targets for f in manifest.files if f.split == "train"):
        return
    options = manifest.options
    raise UserError(
        f"no train record has a target: --mask_alpha={options['mask_alpha']} and "
        f"--mask_beta={options['mask_beta']} want "
        f"{manifest.target_rates('train')[0]:.2g} of the tokens, and there are "
        f"{manifest.counts['train_tokens']}; in another folder take a smaller "
        "--mask_alpha or more text"
    )


def rate_line(manifest: PretrainingManifest, split: str) -> str:
    """Wanted and found targets of a split, in words."""
    wanted, reached = manifest.target_rates(split)
    if reached is None:
        return f"targets wanted {wanted:.4f} of the tokens, found not known"
    return (
        f"targets wanted {wanted:.4f} of the tokens, found {reached:.4f} "
        f"({reached / wanted - 1:+.1%})"
    )


def source_lines(manifest: PretrainingManifest) -> list[str]:
    """One line per named source: how much of the training text it is."""
    total, lines = max(manifest.counts["train_tokens"], 1), []
    for name, counts in manifest.sources.items():
        tokens = counts["train_tokens"]
        left_out = [f"{k} {counts.get('left_out_' + k, 0)}" for k in _LEFT_OUT]
        lines.append(
            f"source {name}, weight {counts['weight']:g}: {counts['documents']} "
            f"documents, left out: {', '.join(left_out)}; {tokens} train tokens "
            f"({tokens / total:.1%})"
        )
    return lines


def report(manifest: PretrainingManifest, log) -> None:
    """Counts, lanes, empty records, rates, sizes."""
    counts = manifest.counts
    log(
        f"documents {counts['documents']}, left out: short "
        f"{counts['left_out_short']}, symbols {counts['left_out_symbols']}, "
        f"duplicate {counts['left_out_duplicate']}"
        + (f", by weights {n}" if (n := counts.get("left_out_weight")) else "")
    )
    for line in source_lines(manifest):
        log(line)
    for split in SPLITS:
        if manifest.lanes(split):
            _report_split(manifest, split, log)
    share = manifest.options["dev_fraction"]
    if share and not manifest.has_dev():
        log(
            f"dev: none of the documents was drawn by --dev_fraction={share}: "
            "nothing is held out; in another folder give a larger share, "
            "another --seed or more text"
        )
    long = counts["train_tokens_of_long_words"] / counts["train_tokens"]
    if long > 0.5:
        log(
            f"{long:.0%} of the tokens are in words of more than "
            f"{MAX_WORD_PIECES} pieces (a script without spaces?): spans are "
            "made of tokens there, as with --span_unit=token"
        )
    size = make_format(
        manifest.seq_len, manifest.num_predict, manifest.vocab_size
    ).record_size
    log(
        f"{size} bytes per record; unigram entropy of the targets "
        f"{manifest.unigram_entropy:.3f} nats"
    )


def _report_split(manifest: PretrainingManifest, split: str, log) -> None:
    counts, lanes = manifest.counts, manifest.lanes(split)
    # 0 in blocks that an earlier version left behind.
    unknown = counts.get(f"{split}_unknown", 0) / counts[f"{split}_tokens"]
    log(
        f"{split}: {counts[split + '_documents']} documents, "
        f"{counts[split + '_tokens']} tokens ({unknown:.2%} unknown), {lanes} "
        f"lanes of {manifest.segments_per_lane[split]} segments per direction: "
        f"batches of up to {lanes * (1 + manifest.bi_data)} rows"
    )
    log(
        f"{split}: {manifest.empty_share(split):.1%} of the records are empty; "
        f"{rate_line(manifest, split)}, in {manifest.num_predict} slots"
    )
    if unknown > MANY_UNKNOWN:
        log(
            f"warning: {split}: {unknown:.1%} of the tokens are <unk>: the "
            "vocabulary lacks characters of this text; give another "
            "--spiece_model_file, or train one on it with `python -m "
            "data.train_sentencepiece`"
        )
    wanted, reached = manifest.target_rates(split)
    tokens = sum(f.tokens for f in manifest.files if f.split == split)
    if (
        split == "train"
        and reached is not None
        and reached < wanted * (1 - _LOSS)
        # Few targets miss their mean by chance, however many slots they have.
        and (wanted - reached) * tokens > _CHANCE * (wanted * tokens) ** 0.5
    ):
        log(
            f"{1 - reached / wanted:.1%} of the targets are lost: "
            f"--num_predict={manifest.num_predict} is too small for them; leave "
            "it out or give more"
        )
