"""What the command adds to a text: beginnings, ends, log-probabilities."""

import json

import numpy as np
import pytest

from common.errors import UserError
from data.text.lm_vocabulary import SymbolVocabulary
from serving import generate
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.decoder import Result
from serving.generation.language_model import LanguageModel
from serving.generation.options import (
    GenerateOptions,
    ModelOptions,
    SamplingOptions,
)
from tests.serving.generation.asked_models import Pieces, asked

WORDS = ["<eos>", "a", "b", "<unk>"]


@pytest.mark.long
@pytest.mark.parametrize("allow_unk", [False, True])
def test_a_left_to_right_model_goes_on_with_a_line(monkeypatch, allow_unk):
    """After the priming lines, until the line ends or the most tokens."""
    lm = asked("eos", WORDS)
    monkeypatch.setattr("serving.generation.causal.load_causal", lambda *_: lm)
    options = GenerateOptions("a b", stop_lines=1, allow_unk=allow_unk)
    sampling = SamplingOptions(
        max_new_tokens=3, num_samples=12, temperature=9.0, top_p=1.0, seed=3
    )
    found = generate._left_to_right(
        "a b", "b\n\n", options, sampling, ModelOptions("folder")
    )
    banned = [] if allow_unk else [3]
    wanted = CausalGenerator(lm.model, banned, 0, 1).generate(
        np.asarray([0, 2, 0, 1, 2], np.int32), sampling
    )
    lengths = wanted.lengths.tolist()
    assert [answer["new_tokens"] for answer in found] == lengths
    for i, answer in enumerate(found):
        new = wanted.tokens[i, : lengths[i]].tolist()
        assert answer["text"] == lm.text_of([1, 2, *new])
        assert answer["ended"] == (0 in new)
        log_prob = wanted.log_probs[i, : lengths[i]].sum()
        assert answer["log_prob"] == pytest.approx(log_prob, abs=1e-4)
    assert len({answer["ended"] for answer in found}) == 2, "another seed"
    assert any("<unk>" in answer["text"] for answer in found) == allow_unk


def test_equal_samples_are_refused(monkeypatch):
    built = {
        GenerateOptions: GenerateOptions("a"),
        SamplingOptions: SamplingOptions(num_samples=3, temperature=0.0),
        ModelOptions: ModelOptions("folder"),
    }
    monkeypatch.setattr(generate.flag_values, "build", built.get)
    with pytest.raises(UserError, match="--num_samples=3: .* the same text"):
        generate.main()


def test_samples_of_a_model_without_numbers_are_one_line():
    tokens, lengths = np.array([[3, 4]]), np.array([1])
    log_probs = np.array([[-0.5, np.nan]], np.float32)  # one is padding
    ((new, _),) = generate._samples(Result(tokens, lengths, log_probs))
    assert new == [3]
    with pytest.raises(UserError, match="the prompt is not finite"):
        list(generate._samples(Result(tokens, lengths + 1, log_probs)))


@pytest.mark.parametrize(
    "unit, symbols, line_end, read",
    [
        ("char", ["\n", " ", "a", "b"], "newline", "ab\nba"),
        # The two words were one.
        ("char", [" ", "a", "b"], "none", "ab ba"),
        ("byte", list(map(str, range(256))), "none", "ab ba"),
        ("word", ["ab", "ba"], "none", "ab ba"),
        ("word", ["<eos>", "ab", "ba"], "eos", "ab\nba"),
    ],
)
def test_what_divides_a_prompt_from_the_text_before_it(
    unit, symbols, line_end, read
):
    vocabulary = SymbolVocabulary(unit, symbols, line_end)
    text = generate._primed("ba", "ab \n", vocabulary)
    assert vocabulary.decode(vocabulary.encode(text)) == read
    assert generate._primed("ba", "", vocabulary) == "ba"


class Generator:
    """Says "de" and ends, "fa" and goes on, or ends at once."""

    asked = []

    def __init__(self, model, banned, eod, pad):
        self.eod, self.pad = eod, pad
        assert (model, banned.tolist()) == ("model", [0, 1, 2, 3, 4, 5, 6])

    def generate(self, ids, sampling):
        self.asked.append((ids.dtype.name, ids.tolist(), sampling.seed))
        d, e, f, a = Pieces().encode("defa")
        rows = [[d, e, self.eod], [f, a, d], [self.eod, self.pad, self.pad]]
        log_probs = [[-1, -2, -0.25], [-1, -1, -4], [-0.125, -9, -9]]
        return Result(np.asarray(rows), np.asarray([3, 3, 1]), log_probs)


def test_a_permutation_model_reads_the_priming_before_eod(
    monkeypatch, tmp_path, capsys
):
    """The end of a document is counted and not shown."""
    path = tmp_path / "before.txt"
    path.write_text("fed")
    built = {
        GenerateOptions: GenerateOptions("abc", str(path)),
        SamplingOptions: SamplingOptions(seed=8),
        ModelOptions: ModelOptions("folder"),
    }
    monkeypatch.setattr(generate.flag_values, "build", built.get)
    generation = "serving.generation"
    monkeypatch.setattr(f"{generation}.causal.is_causal", lambda _: False)
    monkeypatch.setattr(
        f"{generation}.language_model.load_model",
        lambda _: LanguageModel("model", Pieces()),
    )
    monkeypatch.setattr(f"{generation}.decoder.Generator", Generator)
    monkeypatch.setattr(Generator, "asked", [])
    generate.main()
    said = capsys.readouterr()
    eod = Pieces.symbols.eod
    prompt = [*Pieces().encode("fed"), eod, *Pieces().encode("abc")]
    assert Generator.asked == [("int32", prompt, 8)]
    found = [json.loads(line) for line in said.out.splitlines()]
    names = ("text", "new_tokens", "ended", "log_prob")
    assert [tuple(answer[name] for name in names) for answer in found] == [
        ("abcde", 3, True, -3.25),
        ("abcfad", 3, False, -6.0),
        ("abc", 1, True, -0.125),
    ]
    assert said.err.startswith("7 tokens in ")


def test_a_prompt_without_pieces_begins_a_document(monkeypatch):
    """As in the export: it is the text behind `<eod>`."""
    lm = LanguageModel("model", Pieces())
    monkeypatch.setattr(
        "serving.generation.language_model.load_model", lambda _: lm
    )
    monkeypatch.setattr("serving.generation.decoder.Generator", Generator)
    monkeypatch.setattr(Generator, "asked", [])
    answers = generate._permuted(
        "", "", SamplingOptions(seed=8), ModelOptions("folder")
    )
    assert Generator.asked == [("int32", [Pieces.symbols.eod], 8)]
    assert [a["text"] for a in answers] == ["de", "fad", ""]


def test_what_is_read_before_a_prompt_is_checked(tmp_path):
    assert generate.read_priming("", 3) == ""
    path = tmp_path / "before.txt"
    with pytest.raises(UserError, match="before.txt cannot be read: No such"):
        generate.read_priming(str(path), 3)
    path.write_text("abcd")
    with pytest.raises(UserError, match="txt: wanted at most 3 characters"):
        generate.read_priming(str(path), 3)


def test_a_priming_file_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "before.txt"
    path.write_bytes(b"one\ntwo\nna\xefve\n")
    with pytest.raises(UserError, match=r"before.txt:3: is not UTF-8"):
        generate.read_priming(str(path), 100)
    path.write_text("one\nna\u00efve\n", "utf-8")
    assert generate.read_priming(str(path), 100) == "one\nna\u00efve\n"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert generate.read_priming(str(path), 100) == "one\ntwo\n"


@pytest.mark.parametrize(
    "given", [{"mem_len": 8}, {"stop_lines": 1}, {"allow_unk": True}]
)
def test_flags_of_left_to_right_models_are_refused(monkeypatch, given):
    built = {
        GenerateOptions: GenerateOptions("abc", **given),
        SamplingOptions: SamplingOptions(),
        ModelOptions: ModelOptions("folder"),
    }
    monkeypatch.setattr(generate.flag_values, "build", built.get)
    monkeypatch.setattr("serving.generation.causal.is_causal", lambda _: False)
    (name,) = given
    with pytest.raises(UserError, match=f"--{name}: folder is not a left-to"):
        generate.main()


def test_what_is_unknown_is_written_where_a_vocabulary_has_it(monkeypatch):
    """The flag had no effect."""
    lm = asked("none", ["a", "b"])
    monkeypatch.setattr("serving.generation.causal.load_causal", lambda *_: lm)
    options = GenerateOptions("a", allow_unk=True)
    with pytest.raises(UserError, match="^--allow_unk: v.json has no <unk>"):
        generate._left_to_right(
            "a", "", options, SamplingOptions(), ModelOptions("folder")
        )


def test_lines_stop_where_a_vocabulary_ends_them(monkeypatch):
    lm = asked("none", ["a", "b", "<unk>"])
    monkeypatch.setattr("serving.generation.causal.load_causal", lambda *_: lm)
    options = GenerateOptions("a", stop_lines=1)
    with pytest.raises(UserError, match="--stop_lines=1: v.json has no line"):
        generate._left_to_right(
            "a", "", options, SamplingOptions(), ModelOptions("folder")
        )
