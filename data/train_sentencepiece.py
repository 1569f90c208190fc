"""Command: trains a vocabulary from text.

    python -m data.train_sentencepiece --input_glob='corpus/*.txt' \\
        --model_prefix=out/spiece --vocab_size=32000

Writes PREFIX.model, PREFIX.vocab and PREFIX.json (settings and checksums). How text
is handled stands in PREFIX.model itself, too, and every later command reads it from
there. The special symbols come first, in the original's order, then the punctuation
that is always a piece of its own. The same command on finished output changes nothing.
"""

import contextlib
import hashlib
import io
import os
import re
import unicodedata
from collections.abc import Iterator

import sentencepiece
from tqdm import tqdm

from common import files
from common.contract import symbols
from common.errors import UserError
from common.process import ending, next_command
from common.vocabularies import text_settings, vocabulary_field
from common.vocabularies.spiece_messages import messages
from data.corpus import corpus_plan, vocabulary_progress
from data.corpus import documents as corpus
from data.corpus.options import SentencePieceOptions
from data.text import composition
from data.text import normalization as text
from data.text.normalisation_report import Changes
from flags import app, flag_values, text_flags

CONTROL = (symbols.CLS, symbols.SEP, symbols.PAD, symbols.MASK, symbols.EOD)
BLOCK_BYTES = 8_000_000  # read at a time
# SentencePiece leaves longer sentences out without a word (its default).
SENTENCE_BYTES = 4192
_SAMPLE = "a number above 0"  # 0 = all sentences, and none is drawn
# Settings that PREFIX.json has only where they are others than these.
LATER = {"num_unused": 0, "byte_fallback": False, "num_threads": 1}
# Always pieces of their own, as in the original's recipe.
PUNCTUATION = (".", "(", ")", '"', "-", "–", "£", "€")


class Sentences:
    """The sentences of the input, with their number and a checksum.

    `changes` counts what normalisation changes in them; None = not counted.
    """

    def __init__(
        self, options: SentencePieceOptions, changes: Changes | None = None
    ) -> None:
        self._options = options
        self._changes = changes
        self._digest = hashlib.sha256()
        self.count = 0
        self.stream = None  # of the bar; None = standard error

    def __iter__(self) -> Iterator[str]:
        options = self._options
        paths = corpus.list_files(options.input_glob)
        reader = corpus.BlockReader()
        for path in tqdm(
            paths,
            desc="reading",
            unit="file",
            mininterval=1.0,
            file=self.stream,
        ):
            for block in corpus_plan.plan_blocks(path, BLOCK_BYTES):
                for document in corpus.documents(
                    reader.read(block), block, options.text_field
                ):
                    yield from self._normalised(document.lines)

    def _normalised(self, lines: list[str]) -> Iterator[str]:
        how = self._options.text
        for line in lines:
            sentence = text.normalise(
                line, how.uncased, how.keep_accents, how.remove_space
            )
            if sentence:
                self.count += 1
                self._digest.update(sentence.encode() + b"\n")
                if self._changes:
                    self._changes.add(line, sentence)
                yield from shortened(sentence)

    def sha256(self) -> str:
        """Of the normalised sentences read so far."""
        return self._digest.hexdigest()


def shortened(sentence: str, limit: int = SENTENCE_BYTES) -> Iterator[str]:
    """A sentence in parts of at most so many bytes of UTF-8.

    It is cut at the last blank of a part, or else between two characters, a
    mark staying with its base.
    """
    start = 0
    while start < len(sentence):
        # A character has a byte at least: no more of a long line is encoded.
        window = sentence[start : start + limit + 1]
        raw = window.encode()
        if len(raw) <= limit:
            yield window
            return
        end = len(raw[:limit].decode(errors="ignore"))
        blank = window.rfind(" ", 1, end + 1)
        if blank > 0:
            yield window[:blank]
            start += blank + 1
            continue
        cut = end
        while cut > 1 and unicodedata.category(window[cut])[0] == "M":
            cut -= 1
        cut = cut if cut > 1 else end
        yield window[:cut]
        start += cut


def train(options: SentencePieceOptions, log=print) -> dict:
    """Trains and writes the vocabulary; returns the content of PREFIX.json.

    Raises UserError: no text, a size that the text does not allow, output of
    other settings, a protobuf that sentencepiece cannot use.
    """
    paths = corpus.list_files(options.input_glob)
    corpus.check_text_field(options.text_field, paths)
    if finished := already_finished(options):
        return finished
    messages()  # before minutes of training
    with files.temporary_folder() as scratch:
        rules = normalisation_rules(options, scratch)
        changes = Changes(options.text, rules)
        sentences = Sentences(options, changes)
        model = train_model(sentences, options, rules)
    for line in changes.report():
        log(line)
    if finished := already_finished(options):  # by another process, meanwhile
        return finished
    model = vocabulary_field.embed(completed(model, options), options.text)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    check_layout(processor)
    vocab = "".join(
        f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n"
        for i in range(processor.get_piece_size())
    )
    summary = settings(options) | {
        "sentences": sentences.count,
        "sentences_sha256": sentences.sha256(),
        "model_sha256": hashlib.sha256(model).hexdigest(),
    }
    folder = os.path.dirname(options.model_prefix)
    if folder and not files.is_remote(folder):
        os.makedirs(folder, exist_ok=True)
    files.write_text(options.model_prefix + ".vocab", vocab)
    files.write_json(options.model_prefix + ".json", summary)
    # Last: a model without the others is refused as another program's.
    with files.atomic_open(options.model_prefix + ".model") as f:
        f.write(model)
    return summary


def normalisation_rules(
    options: SentencePieceOptions, folder: str
) -> dict[str, str]:
    """SentencePiece's own normalisation, as keyword arguments."""
    if options.text.rule == text_settings.ORIGINAL:
        return {"normalization_rule_name": "nmt_nfkc"}
    path = os.path.join(folder, "rules.tsv")
    table = composition.rules(options.text.uncased)
    files.write_text(path, composition.to_tsv(table))
    return {"normalization_rule_tsv": path}


def completed(model: bytes, options: SentencePieceOptions) -> bytes:
    """The model with our rules' name, not their file's, and unused pieces."""
    ours = options.text.rule != text_settings.ORIGINAL
    if not (ours or options.num_unused):
        return model
    kinds = messages().ModelProto
    proto = kinds.FromString(model)
    if ours:
        proto.normalizer_spec.name = composition.NAME
        proto.normalizer_spec.ClearField("normalization_rule_tsv")
    for i in range(options.num_unused):
        unused = kinds.SentencePiece.UNUSED
        proto.pieces.add(piece=f"<unused{i}>", score=0.0, type=unused)
    if options.num_unused:
        proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(deterministic=True)


def train_model(
    sentences: Sentences, options: SentencePieceOptions, rules: dict[str, str]
) -> bytes:
    """The trained model as bytes, with SentencePiece's errors in one line."""
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(options.seed)
    size = options.vocab_size - options.num_unused
    try:
        with (
            vocabulary_progress.shown(size) as sentences.stream,
            contextlib.ExitStack() as behind,
        ):
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_then_at_once(sentences, behind),
                model_writer=model,
                vocab_size=size,
                model_type=options.model_type,
                byte_fallback=options.byte_fallback,
                character_coverage=options.character_coverage,
                control_symbols=list(CONTROL),
                user_defined_symbols=[symbols.EOP, *PUNCTUATION],
                shuffle_input_sentence=options.input_sentence_size > 0,
                input_sentence_size=options.input_sentence_size,
                # The same text, seed and number give the same file: the sums
                # of several threads are rounded in another order.
                num_threads=options.num_threads,
                minloglevel=0,
                **rules,
            )
    except (RuntimeError, OSError) as e:
        if sentences.count == 0:
            raise UserError(
                f"{options.input_glob}: no text in the input files; wanted one "
                "sentence per line"
            ) from e
        raise UserError(explain(str(e), options)) from e
    return model.getvalue()


def _then_at_once(
    sentences: Sentences, behind: contextlib.ExitStack
) -> Iterator[str]:
    """The sentences; what follows may take hours, and runs no Python."""
    yield from sentences
    behind.enter_context(ending.at_once())


def explain(message: str, options: SentencePieceOptions) -> str:
    """SentencePiece's message as one line that says what to change."""
    limit = re.search(r"value <= (\d+)", message)
    if limit:
        most = int(limit[1]) + options.num_unused
        return (
            f"--vocab_size={options.vocab_size} is too large for this text: at "
            f"most {most} pieces; give --vocab_size={most} or less, or more "
            "text"
        )
    needed = re.search(r"smaller than required_chars\. \d+ vs (\d+)", message)
    if needed:
        least = int(needed[1]) + options.num_unused
        return (
            f"--vocab_size={options.vocab_size} is too small: the text's "
            f"characters alone need {least} pieces; give a larger "
            "--vocab_size or a lower --character_coverage"
        )
    return f"SentencePiece could not train: {' '.join(message.split())}"


def check_layout(processor: sentencepiece.SentencePieceProcessor) -> None:
    """Raises UserError unless the symbols have the ids of the contract."""
    ids = {s: processor.piece_to_id(s) for s in symbols.TRAINED_LAYOUT}
    if ids != symbols.TRAINED_LAYOUT:
        raise UserError(
            f"the trained vocabulary has symbols at {ids}, wanted "
            f"{symbols.TRAINED_LAYOUT}: use the pinned sentencepiece version"
        )


def settings(options: SentencePieceOptions) -> dict:
    """What, with the text, the vocabulary is a function of."""
    later = {}
    for name, default in LATER.items():
        if getattr(options, name) != default:
            later[name] = getattr(options, name)
    return later | {
        "character_coverage": options.character_coverage,
        "input_sentence_size": options.input_sentence_size,
        "model_type": options.model_type,
        "seed": options.seed,
        "sentencepiece": sentencepiece.__version__,
        "unicode": text.UNICODE_VERSION,
        "text_settings": options.text.as_dict(),
        "vocab_size": options.vocab_size,
    }


def already_finished(options: SentencePieceOptions) -> dict | None:
    """PREFIX.json of finished output with these settings and this text.

    Raises UserError: PREFIX.model is there, but of other settings or text.
    """
    model = options.model_prefix + ".model"
    about = options.model_prefix + ".json"
    try:
        summary = None
        if files.exists(about):
            summary = files.read_json_object(about, "remove both files")
        digest = files.sha256_of_file(model)
    except FileNotFoundError:
        summary = None
    if summary is None:
        if files.exists(model):
            raise UserError(
                f"{model} exists, but not {about}: it is not an output of this "
                "command; give another --model_prefix"
            ) from None
        return None
    wanted = LATER | settings(options)
    stored = LATER | summary
    sentences = Sentences(options)
    for _ in sentences:
        pass
    wanted["sentences_sha256"] = sentences.sha256()
    wanted["model_sha256"] = digest
    other = {k: stored.get(k) for k in wanted if stored.get(k) != wanted[k]}
    if other:
        raise UserError(
            f"{model} was made otherwise: wanted "
            f"{ {k: wanted[k] for k in other} }, found {other}; give another "
            "--model_prefix or remove it"
        )
    print(f"{model}: already finished, nothing to do")
    return summary


def main() -> None:
    """Runs the command."""
    text_said = text_flags.from_flags().complete(SentencePieceOptions.text)
    options = flag_values.build(SentencePieceOptions, text=text_said)
    sample = _SAMPLE if options.input_sentence_size else "0"
    flag_values.check_followed(
        "input_sentence_size", sample, {(_SAMPLE,): ("seed",)}
    )
    summary = train(options)
    records = os.path.join(os.path.dirname(options.model_prefix), "records")
    field = f"--text_field={options.text_field}"
    print(
        f"{options.model_prefix}.model: {summary['vocab_size']} "
        f"{summary['model_type']} pieces from {summary['sentences']} "
        f"sentences; text: {options.text}, recorded in the file"
    )
    print(
        next_command.line(
            *("-m", "data.create_pretraining_data"),
            f"--input_glob={options.input_glob}",
            f"--spiece_model_file={options.model_prefix}.model",
            f"--output_dir={records}",
            *([field] if options.text_field != "text" else []),
        )
    )


if __name__ == "__main__":
    flag_values.define(SentencePieceOptions)
    text_flags.define(
        default="composed; original is for weights that were released with it"
    )
    app.run(main)
