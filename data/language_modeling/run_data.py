"""The streams of a run: checked, summed up, and as batches."""

import dataclasses
import math
import os
from collections.abc import Callable, Sequence

from common import files
from common.errors import UserError
from common.vocabularies import vocabulary
from data.language_modeling import reader
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import StreamReadOptions
from data.records.manifest import FILE_NAME
from data.text.lm_vocabulary import PieceVocabulary, Vocabulary


@dataclasses.dataclass(frozen=True)
class StreamData:
    """What a run trains on and is evaluated on."""

    manifest: StreamManifest
    vocabulary: Vocabulary

    def train_batches(
        self, seed: int, seq_len: int, order: str, vary_length: bool = False
    ) -> Callable:
        """`params -> tf.data.Dataset` of endless global batches."""
        how = {"seq_len": seq_len, "order": order, "vary_length": vary_length}
        return self._batches("train", True, seed, **how)

    def _batches(self, split: str, training: bool, seed: int = 0, **how):
        def make(params):
            options = StreamReadOptions(
                params["batch_size"], rows=params.get("rows"), **how
            )
            start = params["start_step"] if training else 0
            return reader.make_dataset(
                self.manifest, split, options, seed, start, training
            )

        return make

    def evaluation_batches(
        self,
        split: str,
        seq_len: int,
        protocol: str,
        count_mark_pairs: bool,
        stride: int = 1,
    ) -> Callable:
        """`params -> tf.data.Dataset`, once.

        Raises UserError: no such split, it has no room for a segment, or pairs
        of marks are left out where there are no marks.
        """
        self.check_length(split, seq_len, "eval_seq_len")
        line_end = self.manifest.options["line_end"]
        if not count_mark_pairs and line_end != "marks":
            raise UserError(
                "--nocount_mark_pairs is of streams with --line_end=marks, "
                f"{self.manifest.data_dir} has {line_end}: leave it out"
            )
        return self._batches(
            split,
            False,
            seq_len=seq_len,
            protocol=protocol,
            count_mark_pairs=count_mark_pairs,
            stride=stride,
        )

    def check_length(
        self, split: str, seq_len: int, flag: str = "seq_len"
    ) -> None:
        """UserError: the split has no room for a segment, or is not there."""
        tokens = self.manifest.split_counts(split).tokens
        if tokens <= seq_len:
            raise UserError(
                f"--{flag}={seq_len} is too long: the {split} split of "
                f"{self.manifest.data_dir} has {tokens} tokens; give a "
                "shorter one or more text"
            )

    def must_match(self) -> dict:
        """What a resumed run cannot change about its data."""
        path = os.path.join(self.manifest.data_dir, FILE_NAME)
        return {
            "vocabulary": self.manifest.vocabulary_sha256,
            "data": files.sha256_of_file(path),
        }

    def marks(self) -> dict:
        """What is kept in a model's configuration to know its vocabulary."""
        return {
            "vocabulary_sha256": self.vocabulary.sha256,
            "vocabulary_file": os.path.basename(
                self.manifest.vocabulary_path()
            ),
            "line_end": self.vocabulary.line_end,
        }

    def check_model(self, extra: dict, where: str) -> None:
        """UserError: a model's vocabulary is not that of the data.

        Where `extra` of its configuration has no hash nothing is known.
        """
        known = extra.get("vocabulary_sha256")
        if known:
            self.vocabulary.require(known, where)

    def copy_vocabulary(self, model_dir: str) -> None:
        """So that generation and export find it beside the checkpoint.

        What is there of a run that died before its first checkpoint goes.
        """
        if isinstance(self.vocabulary, PieceVocabulary):
            tokenizer = self.vocabulary.tokenizer
            vocabulary.copy(tokenizer.vocabulary, tokenizer.settings, model_dir)
            return
        source = self.manifest.vocabulary_path()
        target = os.path.join(model_dir, os.path.basename(source))
        content = files.read_bytes(source)
        if not files.exists(target) or files.read_bytes(target) != content:
            with files.atomic_open(target) as f:
                f.write(content)

    def baselines(self) -> dict[str, float]:
        """Losses, in nats per token, of models that know nothing."""
        return {"ln(vocabulary)": math.log(self.vocabulary.size)}

    def lines(self, batch_size: int, seq_len: int) -> Sequence[str]:
        """The data's lines of the start-up summary."""
        manifest = self.manifest
        counts = manifest.split_counts("train")
        step = batch_size * seq_len
        return [
            f"data         {manifest.data_dir}: {counts.tokens:,d} "
            f"{manifest.options['unit']} tokens to train on, vocabulary "
            f"{self.vocabulary.size:,d} ({self.vocabulary.sha256[:12]})",
            f"             T={seq_len}; {step:,d} tokens per step, "
            f"{counts.tokens / step:,.1f} steps per epoch",
        ]


def open_data(data_dir: str) -> StreamData:
    """The data and their vocabulary, checked against each other.

    Raises UserError: no data of this kind, or a foreign or damaged vocabulary.
    """
    manifest = StreamManifest.load(data_dir)
    vocabulary = manifest.vocabulary()
    if vocabulary.size != manifest.vocab_size:
        raise UserError(
            f"{manifest.vocabulary_path()} has {vocabulary.size} symbols, the data "
            f"were made with {manifest.vocab_size}: build them again"
        )
    return StreamData(manifest, vocabulary)
