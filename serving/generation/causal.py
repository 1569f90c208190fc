"""A trained left-to-right language model with its vocabulary, to be asked."""

import os
import re
import sys
from typing import NamedTuple

import numpy as np

from common import files
from common.errors import UserError
from common.heads import HEADS
from common.vocabularies import text_settings
from common.vocabularies.text_settings import TextChoice
from data.text import lm_vocabulary
from data.text.lm_vocabulary import PieceVocabulary, Vocabulary
from data.text.units import NEWLINE, mark_lines
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.contract import EncoderConfig
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.options import ModelOptions

# WikiText writes a hyphen, comma or point within a word so.
_WITHIN = re.compile(r" @([-,.])@ ")


class CausalLM(NamedTuple):
    """What generation and export work with."""

    model: CausalLanguageModel  # all weights restored, dropout off
    vocabulary: Vocabulary  # that it was trained with
    vocabulary_path: str
    # what was restored; None = it was made here
    weights: checkpoints.Source | None = None

    def banned_ids(self, allow_unk: bool = False) -> np.ndarray:
        """Ids that are never picked: `<unk>`, unless it is asked for."""
        unk = self.vocabulary.unk_id
        banned = [] if unk is None or allow_unk else [unk]
        return np.asarray(banned, np.int32)

    def prompt_ids(self, text: str) -> np.ndarray:
        """int32 [n] of a text that begins a line.

        The end of a line before it comes first where the vocabulary has one.
        Raises UserError: nothing is left to go on from.
        """
        ids = self.vocabulary.encode(text)
        end = self.vocabulary.eos_id
        if end is not None and self.vocabulary.line_end != "marks":
            ids = np.concatenate([np.asarray([end], np.int32), ids])
        if not len(ids):
            raise UserError(
                f"a prompt of at least one {self.vocabulary.unit} is needed: "
                "this vocabulary has no line end to begin with"
            )
        return ids

    def tokens_before(self, text: str, chars: int) -> int:
        """Tokens of a text that begin in its first `chars` characters."""
        if isinstance(self.vocabulary, PieceVocabulary):
            return self._pieces_before(text, chars)
        begin, marks = text[:chars], self.vocabulary.line_end == "marks"
        if self.vocabulary.unit == "word":  # the last may be half of one
            count = len(mark_lines(begin, self.vocabulary.line_end).split())
        else:
            count = len(self.vocabulary.encode(begin))
        # The mark that opens a line is none of its tokens.
        return count - (marks and count > 0)

    def _pieces_before(self, text: str, chars: int) -> int:
        """`tokens_before` of pieces, which end with their line."""
        count, end = 0, int(self.vocabulary.eos_id is not None)
        for line in text.split(NEWLINE):
            starts = self.vocabulary.tokenizer.encode_with_offsets(line)[1]
            count += int(np.searchsorted(starts, chars))
            if chars <= len(line):
                return count
            count, chars = count + end, chars - len(line) - 1
        return count - end

    def ends_after(self, lines: int, prompt: str = "") -> int:
        """How many `eos_id` follow a prompt until so many lines are closed.

        With marks a line that is not the prompt's own has two of them.
        """
        if self.vocabulary.line_end != "marks" or not lines:
            return lines
        return 2 * lines - (not prompt.endswith(NEWLINE))

    def segment_len(self, longest: int) -> int:
        """T that texts of at most `longest` tokens are scored with.

        Places that are counted from the segment's end want the T of training,
        or a text's numbers would depend on the texts beside it: UserError where
        it is not known.
        """
        config = self.model.config
        if not config.bound_to_segment:
            return longest
        if not config.trained_length:
            raise UserError(
                f"encoding {config.encoding!r} counts places from the end of "
                "a segment, and the model does not say how long its segments "
                "were: score with run_lm.py --mode=score --eval_seq_len=T"
            )
        return config.trained_length

    def text_of(self, ids) -> str:
        """Text of ids; of WikiText's words, without its marks."""
        text = self.vocabulary.decode(ids)
        if self.vocabulary.unit == "word":
            text = _WITHIN.sub(r"\1", text)
        return text


def is_causal(checkpoint: str) -> bool:
    """Whether a checkpoint is of a left-to-right language model."""
    config = checkpoints.find_config(checkpoint)
    return config.model_type in HEADS["language_model"].encoders


def load_causal(options: ModelOptions, mem_len: int | None = None) -> CausalLM:
    """A model with its head; every weight must be restored.

    `mem_len` None = as it was trained. Raises UserError: a weight is missing,
    the vocabulary is missing or foreign, other text settings than its own were
    said, or with `same_length` and without memory a token sees itself alone.
    """
    config = checkpoints.find_config(options.checkpoint)
    if mem_len is not None:
        config = config.with_memory(mem_len)
        if config.sees_only_itself:
            raise UserError(
                f"{options.checkpoint} is of same_length, which without memory "
                "leaves every token only itself: wanted --memory_len >= 1, "
                f"received {mem_len}"
            )
    source = checkpoints.resolve(options.checkpoint, options.checkpoint_choice)
    print(source.line, file=sys.stderr)  # standard output is for results
    folder = source.folder
    path = options.spiece_model_file or _vocabulary_in(folder, config)
    vocabulary = _load_vocabulary(path, config)
    check_text(options.text, vocabulary, path)
    model = CausalLanguageModel(config)
    checkpoints.restore(model, source, require="all")
    return CausalLM(model, vocabulary, path, source)


def check_text(
    said: TextChoice | None, vocabulary: Vocabulary, path: str
) -> None:
    """UserError: flags say other text settings than the vocabulary has."""
    if isinstance(vocabulary, PieceVocabulary):
        text_settings.resolve(said, vocabulary.tokenizer.settings, path)
        return
    said = said or TextChoice()
    if said.rule is not None:
        raise UserError(
            f"--text_rule is of SentencePiece vocabularies, found {path} of "
            f"{vocabulary.unit}s, which reads text as it stands; leave the "
            "flag out"
        )
    if said.uncased not in (None, vocabulary.lower_case):
        wanted, found = (
            "lower-cased" if lower else "cased"
            for lower in (said.uncased, vocabulary.lower_case)
        )
        raise UserError(
            f"{path} is of other text settings: wanted {wanted}, found "
            f"{found}; leave --uncased out to take the vocabulary's"
        )


def _vocabulary_in(folder: str, config: EncoderConfig) -> str:
    name = config.extra.get("vocabulary_file", lm_vocabulary.FILE_NAME)
    path = os.path.join(folder, name)
    # Folders of averages lie below the run's.
    above = os.path.join(os.path.dirname(folder.rstrip("/")), name)
    if not files.exists(path) and files.exists(above):
        path = above
    if not files.exists(path):
        raise UserError(
            f"{path} does not exist: give --spiece_model_file, the vocabulary "
            "that the model was trained with"
        )
    return path


def _load_vocabulary(path: str, config: EncoderConfig) -> Vocabulary:
    symbols = lm_vocabulary.load(path, config.extra.get("line_end"))
    known = config.extra.get("vocabulary_sha256")
    if known:
        symbols.require(known, "the model")
    if symbols.size != config.vocab_size:
        raise UserError(
            f"{path} has {symbols.size} symbols, the model {config.vocab_size}: "
            "give the file it was trained with"
        )
    return symbols
