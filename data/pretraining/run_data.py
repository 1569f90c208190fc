"""The records of a run: checked, summed up, and as batches."""

import dataclasses
import math
import os
from collections.abc import Callable

from common import files
from common.contract.task_spec import SPIECE_NAME
from common.errors import UserError
from common.vocabularies import text_settings, vocabulary
from common.vocabularies.vocabulary import Vocabulary
from data.pretraining.build_report import rate_line
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import ReaderOptions
from data.pretraining.reader import make_dataset
from data.pretraining.sampling.record_arrays import check_sampler
from data.records.manifest import FILE_NAME


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run trains on and what it is evaluated on."""

    manifest: PretrainingManifest
    # (manifest, split) to evaluate on
    held_out: tuple[PretrainingManifest, str] | None = None
    # the SentencePiece file of the data; None where no copy lies beside them
    # and none was given
    vocabulary: Vocabulary | None = None

    def train_batches(self, seed: int, **reader) -> Callable:
        """`params -> tf.data.Dataset` of endless global batches.

        Raises UserError: draws that the data do not allow.
        """
        drawn = {k: v for k, v in reader.items() if k.startswith("resample_")}
        check_sampler(self.manifest, **drawn)
        return _input_fn(self.manifest, "train", seed=seed, **reader)

    def held_out_batches(self, seed: int, **reader) -> Callable | None:
        """`params -> tf.data.Dataset` of every held-out lane once, or None."""
        if not self.held_out:
            return None
        return _input_fn(*self.held_out, seed=seed, repeat=False, **reader)

    def must_match(self) -> dict:
        """What a resumed run cannot change about its data."""
        manifest = self.manifest
        path = os.path.join(manifest.data_dir, FILE_NAME)
        return {
            "vocabulary": manifest.spiece_sha256,
            "text_settings": manifest.text.as_dict(),
            "data": files.sha256_of_file(path),
            "seq_len": manifest.seq_len,
            "reuse_len": manifest.reuse_len,
            "num_predict": manifest.num_predict,
            "bi_data": manifest.bi_data,
        }

    def should_match(self, eval_steps: int) -> dict:
        """The same of evaluations: `evaluations.jsonl` goes on with them."""
        if not self.held_out:
            return {}
        other, split = self.held_out
        path = os.path.join(other.data_dir, FILE_NAME)
        return {
            "dev_data": f"{split} {files.sha256_of_file(path)}",
            "eval_steps": eval_steps,
        }

    def of_data(self) -> Vocabulary:
        """Hash and text settings of the records; no content without a copy."""
        path = os.path.join(self.manifest.data_dir, FILE_NAME)
        sha256, text = self.manifest.spiece_sha256, self.manifest.text
        content = self.vocabulary.content if self.vocabulary else b""
        return Vocabulary(path, content, sha256, text, "")

    def copy_vocabulary(self, model_dir: str) -> None:
        """So that fine-tuning and serving find it beside the checkpoint."""
        if self.vocabulary:
            vocabulary.copy(self.vocabulary, self.manifest.text, model_dir)

    def baselines(self) -> dict[str, float]:
        """Losses, in nats per target, of models that know no context."""
        return {
            "ln(vocabulary)": math.log(self.manifest.vocab_size),
            "unigram entropy": self.manifest.unigram_entropy,
        }

    def lines(self, batch_size: int) -> list[str]:
        """The data's lines of the start-up summary."""
        manifest = self.manifest
        tokens = batch_size * manifest.seq_len
        targets = batch_size * manifest.num_predict
        known = (f"{k} {v:.3f}" for k, v in self.baselines().items())
        lines = [
            f"data         {manifest.data_dir}: {manifest.lanes('train')} "
            f"lanes of {manifest.segments_per_lane['train']} segments"
            + (" per direction" if manifest.bi_data else "")
            + f", vocabulary {manifest.spiece_sha256[:12]}",
            f"text         {manifest.text} (as the data were built)",
            f"             T={manifest.seq_len} reuse {manifest.reuse_len} "
            f"P={manifest.num_predict}; {tokens:,d} positions and up to "
            f"{targets:,d} targets per step",
            f"             {', '.join(known)} nats per target",
            f"             {rate_line(manifest, 'train')}; "
            f"{manifest.empty_share('train'):.1%} of the records are empty",
        ]
        if self.vocabulary is None:
            lines.append(
                f"note: {manifest.data_dir} holds no copy of its vocabulary: "
                "give --spiece_model_file, so that it is kept beside the "
                "checkpoints"
            )
        if self.held_out:
            other, split = self.held_out
            lines.append(
                f"held out     {split} split of {other.data_dir}: "
                f"{other.lanes(split)} lanes of "
                f"{other.segments_per_lane[split]}"
            )
        return lines


def open_data(
    data_dir: str,
    wanted: dict,
    spiece_model_file: str | None = None,
    eval_data_dir: str | None = None,
    needs_held_out: bool = False,
) -> RunData:
    """The data, checked against what the user gave.

    Raises UserError where there are none, or they differ from the flags, the
    vocabulary or each other.

    Args:
      wanted: manifest property -> value that it must have.
      spiece_model_file: must be the file of the data; None = the copy beside
        them, if there is one.
      eval_data_dir: held-out data; None = the dev split, if there is one.
    """
    manifest = PretrainingManifest.load(data_dir)
    manifest.require(**wanted)
    vocabulary_file = _find_vocabulary(manifest, spiece_model_file)
    held_out = _held_out(manifest, eval_data_dir)
    if held_out is None and needs_held_out:
        raise UserError(
            f"{data_dir} has no dev split; build it with --dev_fraction=0.01 "
            "or give --eval_data_dir"
        )
    return RunData(manifest, held_out, vocabulary_file)


def _held_out(
    manifest: PretrainingManifest, eval_data_dir: str | None
) -> tuple[PretrainingManifest, str] | None:
    """(manifest, split) of the held-out data, None without any."""
    if eval_data_dir:
        other = PretrainingManifest.load(eval_data_dir)
        other.require(
            spiece_sha256=manifest.spiece_sha256,
            text=manifest.text,
            seq_len=manifest.seq_len,
            reuse_len=manifest.reuse_len,
            bi_data=manifest.bi_data,
        )
        return other, "dev" if other.has_dev() else "train"
    return (manifest, "dev") if manifest.has_dev() else None


def _find_vocabulary(
    manifest: PretrainingManifest, path: str | None
) -> Vocabulary | None:
    """The given file or the data's copy, checked; None without either."""
    copied = os.path.join(manifest.data_dir, SPIECE_NAME)
    if not path and not files.exists(copied):
        return None
    vocabulary_file = vocabulary.read(path or copied)
    try:
        manifest.require(spiece_sha256=vocabulary_file.sha256)
    except UserError as e:
        raise UserError(f"{vocabulary_file.path} is another file: {e}") from e
    text_settings.resolve(
        manifest.text,
        vocabulary_file.recorded,
        f"{manifest.data_dir} was built with other text handling than its "
        f"vocabulary's: {vocabulary_file.path}",
    )
    return vocabulary_file


def _input_fn(manifest: PretrainingManifest, split: str, **reader) -> Callable:
    def make(params):
        options = ReaderOptions(
            global_batch=params["batch_size"],
            start_step=params["start_step"],
            split=split,
            rows=params.get("rows"),
            **reader,
        )
        return make_dataset(manifest, options)

    return make
