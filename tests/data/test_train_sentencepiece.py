"""Vocabulary training: layout, kinds, errors, repetition."""

import errno
import json
import random
import re
import signal
import subprocess
import sys

import pytest
import sentencepiece
from absl import flags

from common import files
from common.contract import symbols
from common.errors import UserError
from common.vocabularies.text_settings import TextChoice, TextSettings
from data import train_sentencepiece as command
from data.corpus.options import SentencePieceOptions
from data.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = random.Random(5)
    parts = [
        "".join(rng.choices("abcdefgilmnoprstuñÜM", k=3)) for _ in range(60)
    ]
    words = [a + b for a in parts[:30] for b in parts[30:]]
    lines = [" ".join(rng.choices(words, k=9)) + "." for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_text("\n".join(lines) + "\n<eop>\n")
    return path


def options(corpus, tmp_path, **changes):
    values = {"vocab_size": 80} | changes
    return SentencePieceOptions(str(corpus), f"{tmp_path}/o/sp", **values)


@pytest.mark.long
@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_symbols_are_laid_out_as_in_the_original(text, tmp_path, model_type):
    size = 37 if model_type == "char" else 80
    wanted = options(text, tmp_path, model_type=model_type, vocab_size=size)
    summary = command.train(wanted)
    processor = sentencepiece.SentencePieceProcessor(
        model_file=wanted.model_prefix + ".model"
    )
    assert processor.get_piece_size() == size == summary["vocab_size"]
    first = [processor.id_to_piece(i) for i in range(17)]
    assert first == [*symbols.TRAINED_LAYOUT, *command.PUNCTUATION]
    assert processor.is_control(3) and not processor.is_control(8)
    longest = max(len(processor.id_to_piece(i)) for i in range(17, size))
    assert (longest == 1) == (model_type == "char")
    vocab = (tmp_path / "o" / "sp.vocab").read_text()
    assert vocab.count("\n") == size


@pytest.fixture
def interrupt():
    """The handler of a terminal; in the background Ctrl-C may be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_signals_end_the_trainer_at_once(
    text, tmp_path, monkeypatch, interrupt
):
    """It holds the interpreter: Ctrl-C waited for its end, hours maybe."""
    seen = []

    def trains(sentence_iterator, **_):
        next(sentence_iterator)
        seen.append(signal.getsignal(signal.SIGINT))
        list(sentence_iterator)
        seen.append(signal.getsignal(signal.SIGINT))

    trainer = sentencepiece.SentencePieceTrainer
    monkeypatch.setattr(trainer, "train", trains)
    wanted = options(text, tmp_path)
    command.train_model(command.Sentences(wanted), wanted, {})
    assert seen == [interrupt, signal.SIG_DFL]
    assert signal.getsignal(signal.SIGINT) == interrupt


def test_unused_pieces_and_bytes(text, tmp_path):
    wanted = options(
        text,
        tmp_path,
        model_type="bpe",
        vocab_size=340,
        num_unused=7,
        byte_fallback=True,
    )
    summary = command.train(wanted)
    assert (summary["num_unused"], summary["byte_fallback"]) == (7, True)
    path = wanted.model_prefix + ".model"
    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    assert processor.get_piece_size() == 340
    unused = [i for i in range(340) if processor.is_unused(i)]
    assert unused == list(range(333, 340))
    assert processor.id_to_piece(339) == "<unused6>"
    tokenizer = Tokenizer(path)
    text = "mon <unused3> 猫"
    ids = tokenizer.encode(text)
    assert not set(ids) & set(unused) and tokenizer.symbols.unk not in ids
    assert tokenizer.decode(ids) == text
    # The bytes of one character begin no words.
    starts = tokenizer.word_starts[ids[-3:]]
    assert [processor.is_byte(i) for i in ids[-3:]] == [True] * 3
    assert not starts.any()
    assert "num_unused" not in command.settings(options(text, tmp_path))
    with pytest.raises(UserError, match="above --num_unused=70"):
        options(text, tmp_path, num_unused=70)
    command.train(wanted)  # already finished


def test_threads_are_a_setting_and_the_training_is_shown(text, tmp_path, capfd):
    wanted = options(text, tmp_path, num_threads=2)
    summary = command.train(wanted)
    assert summary["num_threads"] == 2
    shown = capfd.readouterr().err
    assert "vocabulary: 400 sentences\n" in shown
    left = re.findall(r"vocabulary: (\d+) pieces left, 80 wanted", shown)
    assert left and sorted(map(int, left), reverse=True) == [*map(int, left)]
    assert ".cc" not in shown and "trainer_spec" not in shown
    again = options(text, tmp_path / "b", num_threads=2)
    command.train(again)
    assert command_pieces(tmp_path / "b/o/sp.model") == command_pieces(
        tmp_path / "o/sp.model"
    )
    assert "num_threads" not in command.settings(options(text, tmp_path))
    with pytest.raises(UserError, match="num_threads"):
        command.train(options(text, tmp_path))  # of another number
    with pytest.raises(UserError, match="--num_threads must be"):
        options(text, tmp_path, num_threads=0)


@pytest.mark.long
def test_uncased_and_accents_go_through_our_normalisation(text, tmp_path):
    for uncased, keep in ((False, False), (True, False), (True, True)):
        prefix = tmp_path / f"{uncased}{keep}"
        prefix.mkdir()
        rule = "composed" if keep else "original"
        how = TextSettings(rule, uncased)
        wanted = options(text, prefix, text=how)
        command.train(wanted)
        characters = (prefix / "o" / "sp.vocab").read_text()[len("<unk>") :]
        assert ("M" in characters) != uncased
        assert ("ñ" in characters) == keep


def test_the_same_command_again_changes_nothing(text, tmp_path, capsys):
    wanted = options(text, tmp_path)
    command.train(wanted)
    model = tmp_path / "o" / "sp.model"
    before = model.read_bytes(), model.stat().st_mtime_ns
    command.train(wanted)
    assert "nothing to do" in capsys.readouterr().out
    assert (model.read_bytes(), model.stat().st_mtime_ns) == before
    again = options(text, tmp_path / "elsewhere")
    command.train(again)
    other = tmp_path / "elsewhere" / "o" / "sp.model"
    # Only the output prefix inside the file may differ.
    assert command_pieces(other) == command_pieces(model)


def command_pieces(path):
    p = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [(p.id_to_piece(i), p.get_score(i)) for i in range(len(p))]


@pytest.mark.parametrize("ending", [".vocab", ".json"])
def test_a_command_that_died_while_it_wrote_is_started_again(
    text, tmp_path, monkeypatch, ending
):
    """The model comes last: without the others it is refused as another's."""
    made, write = options(text, tmp_path), command.files.write_text

    def full(path, *more):
        if path.endswith(ending):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        write(path, *more)

    with monkeypatch.context() as patch:
        patch.setattr(command.files, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            command.train(made)
    summary = command.train(made)
    assert command.already_finished(made) == summary


def test_what_another_process_made_meanwhile_stays(text, tmp_path, monkeypatch):
    mine, theirs = options(text, tmp_path), options(text, tmp_path, seed=1)
    train_model = command.train_model

    def slow(*arguments):
        monkeypatch.setattr(command, "train_model", train_model)
        command.train(theirs)
        return train_model(*arguments)

    monkeypatch.setattr(command, "train_model", slow)
    with pytest.raises(UserError, match="made otherwise: wanted .'seed': 0"):
        command.train(mine)
    assert command.already_finished(theirs)


def test_other_settings_or_text_on_finished_output_are_refused(text, tmp_path):
    command.train(options(text, tmp_path))
    with pytest.raises(UserError, match="wanted.*70.*found.*80"):
        command.train(options(text, tmp_path, vocab_size=70))
    changed = tmp_path / "changed.txt"
    changed.write_text(text.read_text() + "More.\n")
    with pytest.raises(UserError, match="sentences_sha256"):
        command.train(options(changed, tmp_path))
    about = tmp_path / "o" / "sp.json"
    about.unlink()
    with pytest.raises(UserError, match="is not an output of this command"):
        command.train(options(text, tmp_path))


def test_a_vocabulary_in_a_bucket_is_that_of_a_disk(text, tmp_path):
    summary = command.train(options(text, tmp_path))
    remote = options(text, "ram:/" + str(tmp_path))
    assert command.train(remote) == summary
    assert command.already_finished(remote) == summary
    files.remove(remote.model_prefix + ".json")
    with pytest.raises(UserError, match="is not an output of this command"):
        command.already_finished(remote)
    files.remove(remote.model_prefix + ".model")
    assert command.already_finished(remote) is None


def test_sizes_that_the_text_does_not_allow(text, tmp_path):
    with pytest.raises(UserError, match=r"too large for this text: at most"):
        command.train(options(text, tmp_path, vocab_size=90000))
    with pytest.raises(UserError, match=r"too small: the text's characters"):
        command.train(options(text, tmp_path, vocab_size=20))
    assert not (tmp_path / "o").exists()


@pytest.mark.long
def test_long_lines_are_cut_not_left_out(tmp_path):
    rng = random.Random(2)
    han = "".join(chr(0x4E00 + i) for i in range(40))
    lines = []
    for _ in range(60):
        lines += ["".join(rng.choices(han, k=1500)), "a few short words"]
    path = tmp_path / "han.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    wanted = options(path, tmp_path, vocab_size=90)
    assert command.train(wanted)["sentences"] == 120
    processor = sentencepiece.SentencePieceProcessor(
        model_file=wanted.model_prefix + ".model"
    )
    pieces = {processor.id_to_piece(i) for i in range(90)}
    assert set(han) <= pieces
    command.train(wanted)  # already finished


def test_where_long_lines_are_cut():
    def cut(text, limit):
        parts = list(command.shortened(text, limit))
        assert all(0 < len(p.encode()) <= limit for p in parts)
        return parts

    assert cut("as it is", 8) == ["as it is"]
    assert cut("one two three", 8) == ["one two", "three"]
    assert cut("one two three", 7) == ["one two", "three"]
    assert cut("猫" * 5, 8) == ["猫猫", "猫猫", "猫"]
    # A Thai vowel sign stays with its consonant.
    assert cut("กกกิ", 9) == ["กก", "กิ"]
    assert cut("กิิิ", 6) == ["กิ", "ิิ"]  # nothing but marks
    assert cut("ab ", 2) == ["ab"]


def test_no_text(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    with pytest.raises(UserError, match="no text in the input files"):
        command.train(options(empty, tmp_path))


def test_the_field_of_jsonl_is_the_builders(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "a b\\n c ", "text": 3}\n{"body": "d"}\n')
    found = command.Sentences(options(path, tmp_path, text_field="body"))
    assert list(found) == ["a b", "c", "d"]
    with pytest.raises(UserError, match="line 1: wanted .* field 'text'"):
        list(command.Sentences(options(path, tmp_path)))
    path = path.rename(tmp_path / "a.ndjson")
    with pytest.raises(UserError, match="--text_field=body is of JSON lines"):
        command.train(options(path, tmp_path, text_field="body"))


def test_a_seed_is_of_a_sample(monkeypatch):
    """0 takes all sentences, and nothing is drawn."""
    values = flags.FlagValues()
    flags.DEFINE_integer("seed", 0, "", flag_values=values)
    values(["command", "--seed=2"])
    made = SentencePieceOptions("no.txt", "x", input_sentence_size=0)
    helper = command.flag_values
    monkeypatch.setattr(helper, "build", lambda *_, **given: made)
    monkeypatch.setattr(helper, "FLAGS", values)
    monkeypatch.setattr(command.text_flags, "from_flags", TextChoice)
    with pytest.raises(UserError, match="--seed is of --input_sentence_size=a"):
        command.main()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"vocab_size": 3}, "--vocab_size must be at least"),
        ({"model_type": "word"}, "--model_type must be one of"),
        ({"character_coverage": 0.1}, "--character_coverage must be in"),
        ({"input_sentence_size": -1}, "--input_sentence_size"),
        ({"seed": -1}, "--seed must be in"),
        ({"seed": 1 << 32}, "--seed must be in"),
    ],
)
def test_bad_options(text, tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        options(text, tmp_path, **changes)


@pytest.mark.long
def test_the_command_prints_one_line_for_an_error(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "data.train_sentencepiece",
            f"--input_glob={tmp_path}/none",
            f"--model_prefix={tmp_path}/sp",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: --input_glob=")
    assert not list(tmp_path.iterdir())


def test_summary_file(text, tmp_path):
    summary = command.train(options(text, tmp_path))
    stored = json.loads((tmp_path / "o" / "sp.json").read_text())
    assert stored == summary
    assert summary["sentences"] == 400


def test_a_protobuf_that_does_not_fit_is_told_before_the_training(
    text, tmp_path, monkeypatch
):
    from google.protobuf import runtime_version

    def refuse(*_):
        raise runtime_version.VersionError("gencode 7 runtime 6. More.")

    name = "sentencepiece_model_pb2"
    monkeypatch.delattr(sentencepiece, name, raising=False)
    monkeypatch.delitem(sys.modules, f"sentencepiece.{name}", raising=False)
    monkeypatch.setattr(
        runtime_version, "ValidateProtobufRuntimeVersion", refuse
    )
    monkeypatch.setattr(command, "train_model", None)  # never called
    with pytest.raises(
        UserError, match="gencode 7 runtime 6; use an environment"
    ):
        command.train(options(text, tmp_path))
    assert not list(tmp_path.iterdir())
