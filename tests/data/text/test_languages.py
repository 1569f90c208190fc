"""Nine languages: the default keeps their marks, offline and in the graph."""

import io

import numpy as np
import pytest
import sentencepiece

from common.contract import symbols
from common.vocabularies import vocabulary_field
from common.vocabularies.text_settings import COMPOSED, ORIGINAL, TextSettings
from data import train_sentencepiece as command
from data.corpus.options import SentencePieceOptions
from data.text import masked
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from tests.helpers import languages


def train(folder, rule, uncased=False):
    corpus = languages.write_corpus(folder / "text.txt")
    prefix = str(folder / rule)
    log = []
    command.train(
        SentencePieceOptions(
            corpus,
            prefix,
            vocab_size=1000,
            model_type="bpe",
            character_coverage=1.0,
            text=TextSettings(rule, uncased),
        ),
        log.append,
    )
    return prefix + ".model", log


@pytest.fixture(scope="module")
def composed(tmp_path_factory):
    return train(tmp_path_factory.mktemp("composed"), COMPOSED)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return train(tmp_path_factory.mktemp("original"), ORIGINAL)


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_the_default_keeps_every_mark(composed, language):
    tokenizer = Tokenizer(composed[0])
    unknown = tokenizer.symbols.unk
    for line in languages.lines(language):
        ids = tokenizer.encode(line)
        assert unknown not in ids
        found = tokenizer.decode(ids)
        # What may differ: full-width forms, and no space is added or lost.
        wanted = line.translate(
            {ord("，"): ",", **{ord("０") + i: str(i) for i in range(10)}}
        )
        assert found == " ".join(wanted.split()), line
    wanted = [tokenizer.encode(t) for t in languages.lines(language)]
    assert [tokenizer.encode(t) for t in languages.hard_lines(language)] == (
        wanted
    )


@pytest.mark.parametrize("raw", languages.COMPOSED)
def test_spellings(composed, raw):
    tokenizer = Tokenizer(composed[0])
    wanted = languages.COMPOSED[raw]
    pieces = "".join(tokenizer.encode_pieces(raw))
    assert pieces.replace("\u2581", " ").strip() == wanted


def test_the_original_rule_loses_them_and_says_so(original, composed):
    path, log = original
    tokenizer = Tokenizer(path)
    assert tokenizer.settings == TextSettings(ORIGINAL)
    assert tokenizer.normalise("がデパй") == "かテハи"
    assert log[-1].startswith("warning: normalisation takes")
    assert len([line for line in log if "  ->  " in line]) == 3
    assert not any("warning" in line for line in composed[1])
    assert ", 0 lose a mark" in composed[1][0]


@pytest.mark.long
def test_graph_ids_and_offsets_are_the_offline_ones(composed):
    tokenizer = Tokenizer(composed[0])
    graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
    texts = [
        text
        for language in languages.LANGUAGES
        for text in (
            *languages.lines(language),
            *languages.hard_lines(language),
        )
    ]
    texts += languages.COMPOSED
    raw = np.asarray([t.encode() for t in texts])
    wanted = [tokenizer.encode(t) for t in texts]
    assert graph.tokenize(raw).to_list() == wanted
    assert [a.tolist() for a in tokenizer.encode_batch(texts)] == wanted
    ids, starts, ends = (x.to_list() for x in graph.tokenize_with_offsets(raw))
    assert ids == wanted
    for row, text in enumerate(texts):
        offline = tokenizer.encode_with_offsets(text)
        assert (starts[row], ends[row]) == offline[1:], ascii(text)


@pytest.mark.long
def test_lower_case_holds_for_what_comes_out_of_the_rules(tmp_path):
    tokenizer = Tokenizer(train(tmp_path, COMPOSED, uncased=True)[0])
    for raw, wanted in (("\u2103", "\xb0c"), ("\u2122", "tm"), ("Ä", "ä")):
        pieces = "".join(tokenizer.encode_pieces(raw))
        assert pieces.replace("\u2581", "") == wanted


@pytest.mark.parametrize("comma", "，﹐︐")
def test_a_full_width_comma_is_cut_from_its_digits(comma):
    """`encode` gives what the other ways give (it left the piece whole)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a 2000, b", "2000, 2000, c"] * 20),
        model_writer=model,
        vocab_size=30,
        model_type="bpe",
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>",
        user_defined_symbols="<eop>",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    content = vocabulary_field.embed(model.getvalue(), TextSettings(COMPOSED))
    tokenizer = _tokenizer(content)
    text = f"2000{comma} a"
    batch = tokenizer.encode_batch([text])[0].tolist()
    assert tokenizer.encode(text) == batch
    assert tokenizer.encode_pieces(text)[-2:] == [",", "\u2581a"]
    assert tokenizer.encode_with_offsets(text)[0] == batch


def _tokenizer(content):
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".model") as f:
        f.write(content)
        f.flush()
        return Tokenizer(f.name)


def without_piece(ids, starts, ends, place, mask):
    """Ids of the text in which a piece is hidden, with the mark before it."""
    begin = place
    while begin and starts[begin - 1] == ends[begin - 1] == starts[place]:
        begin -= 1
    return [*ids[:begin], mask, *ids[place + 1 :]], range(begin, place + 1)


@pytest.mark.parametrize("language", languages.LANGUAGES)
def test_pieces_around_a_mask_are_those_of_the_filled_text(composed, language):
    tokenizer = Tokenizer(composed[0])
    graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
    encoder, mask = masked.MaskedEncoder(tokenizer), tokenizer.symbols.mask
    hidden_texts, wanted = [], []
    for text in languages.lines(language)[:3] + languages.hard_lines(language):
        ids, starts, ends = tokenizer.encode_with_offsets(text)
        for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start == end:
                continue
            parts = [text[:start], text[end:]]
            rest, places = without_piece(ids, starts, ends, place, mask)
            hidden_texts.append(symbols.MASK.join(parts))
            wanted.append(rest)
            filled = masked.encode_filled(tokenizer, parts, [text[start:end]])
            assert filled.ids.tolist() == ids
            assert np.flatnonzero(filled.hidden[0]).tolist() == list(places)
    found = [encoder.encode(t.split(symbols.MASK)) for t in hidden_texts]
    assert found == wanted
    found = graph.tokenize_masked(np.asarray(hidden_texts), mask)
    assert found.to_list() == wanted
