"""Hidden places, cut as the text with its words is cut."""

import json

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from common.contract import symbols
from common.vocabularies.text_settings import TextSettings
from data import train_sentencepiece
from data.corpus.options import SentencePieceOptions
from data.text import masked
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from tests.helpers import languages

PLACE = symbols.MASK


@pytest.fixture(scope="module")
def unigram(tmp_path_factory):
    """Text in nine languages; characters without a piece become bytes."""
    folder = tmp_path_factory.mktemp("unigram")
    options = SentencePieceOptions(
        languages.write_corpus(folder / "text.txt"),
        str(folder / "spiece"),
        vocab_size=900,
        character_coverage=0.99,
        byte_fallback=True,
    )
    train_sentencepiece.train(options, lambda _: None)
    return Tokenizer(str(folder / "spiece.model"))


def pieces(tokenizer, text):
    """Those of the text and, in the graph, the same ids."""
    mask = tokenizer.symbols.mask
    ids = masked.MaskedEncoder(tokenizer).encode(text.split(PLACE))
    graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
    assert graph.tokenize_masked(np.array([text]), mask).to_list() == [ids]
    return [tokenizer.id_to_piece(i) for i in ids]


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    "text, wanted",
    [
        # The space before a mask is a part of what it hides.
        ("the <mask>.", "▁the <mask> ."),
        ("the <mask> the", "▁the <mask> ▁the"),
        ("<mask>", "<mask>"),
        ("<mask> the  <mask> ", "<mask> ▁the <mask>"),
        ("<mask><mask> <mask>", "<mask> <mask> <mask>"),
        # Without one it goes on with a word, and so does what follows.
        ("the<mask>s", "▁the <mask> s"),
        ('the "<mask>"', '▁the ▁ " <mask> "'),
        ("<mask>, ``<mask>''", '<mask> , ▁ " <mask> "'),
        # Unknown characters do not take it along.
        (
            "\u2603<mask>\u2603 <mask>\u2603",
            "▁ <unk> <mask> <unk> <mask> <unk>",
        ),
        # Nor is a text's own private character one.
        ("the\ue000<mask>", "▁the <unk> <mask>"),
        ("20,<mask>0", "▁ 20 , <mask> 0"),
    ],
)
def test_what_stands_around_a_mask(spiece_model, text, wanted):
    assert pieces(Tokenizer(spiece_model), text) == wanted.split(" ")


@pytest.mark.shared
def test_golden_texts_around_every_word(spiece_model, golden):
    """A word hidden in the golden texts leaves the golden pieces."""
    with open(golden / "text" / "encode.json") as f:
        cases = [c for c in json.load(f)["cases"] if c["text"].strip()]
    tokenizer = Tokenizer(spiece_model)
    encoder, mask = masked.MaskedEncoder(tokenizer), tokenizer.symbols.mask
    checked = 0
    for case in cases:
        text = case["text"]
        ids, starts, ends = tokenizer.encode_spans(text)
        for word in text.split():
            begin = text.index(word)
            parts = [text[:begin], text[begin + len(word) :]]
            encoded = masked.encode_filled(tokenizer, parts, [word])
            assert encoded.ids.tolist() == ids.tolist()
            hidden = np.flatnonzero(encoded.hidden[0])
            if not len(hidden):
                continue
            span = starts[hidden[0]], ends[hidden[-1]]
            if span != (begin, begin + len(word)):  # '', of two words
                continue
            rest = np.delete(ids, hidden).tolist()
            rest.insert(hidden[0], mask)
            assert encoder.encode(parts) == rest, (text, word)
            checked += 1
    assert checked > 100


def test_bytes_do_not_take_a_mask_apart(unigram):
    text = "\u2603<mask>\u2603 <mask>灯台は"
    assert "<0xE2>" in unigram.encode_pieces(text)
    cut = pieces(unigram, text)
    assert cut.count(PLACE) == 2
    assert cut[:4] == ["▁", "<0xE2>", "<0x98>", "<0x83>"]
    assert cut[4:9] == [PLACE, "<0xE2>", "<0x98>", "<0x83>", PLACE]
    tail = "".join(cut[9:])
    assert tail == "灯台は"


def test_a_piece_of_both_sides_is_hidden_as_a_whole(unigram):
    """Training never cuts a word there."""
    whole = "Der alte Leuchtturm"
    ids = unigram.encode(whole)
    encoded = masked.encode_filled(unigram, ["Der al", "e Leuchtturm"], ["t"])
    assert encoded.ids.tolist() == ids
    hidden = [
        unigram.id_to_piece(ids[i]) for i in np.flatnonzero(encoded.hidden)
    ]
    assert "t" in "".join(hidden) and "".join(hidden).strip("▁") != "t"


def test_the_pieces_are_added_behind_and_change_no_other(unigram):
    places = masked.with_places(unigram.vocabulary.content)
    processor = sentencepiece.SentencePieceProcessor(model_proto=places.model)
    assert processor.get_piece_size() == places.size + 2
    added = [processor.id_to_piece(places.size + i) for i in range(2)]
    assert added == ["▁" + places.place, places.place]
    assert unigram.settings == TextSettings("composed")
    for language in languages.LANGUAGES:
        for line in languages.lines(language):
            wanted = unigram.encode(line)
            assert unigram.extended(places.model).encode(line) == wanted


@pytest.mark.long
def test_an_export_keeps_both_vocabularies(unigram, tmp_path):
    content, settings = unigram.vocabulary.content, unigram.settings
    root, mask = tf.Module(), unigram.symbols.mask
    root.graph = GraphTokenizer(content, settings)

    def both(text):
        return {
            "plain": root.graph.tokenize(text).to_tensor(),
            "masked": root.graph.tokenize_masked(text, mask).to_tensor(),
        }

    root.run = tf.function(both, autograph=False)
    spec = tf.TensorSpec([None], tf.string, name="text")
    signature = root.run.get_concrete_function(text=spec)
    tf.saved_model.save(root, str(tmp_path), signatures=signature)
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    text = "Der alte <mask> Turm."
    answers = loaded(text=tf.constant([text]))
    assert answers["plain"].numpy().tolist() == [unigram.encode(text)]
    wanted = masked.MaskedEncoder(unigram).encode(text.split(PLACE))
    assert answers["masked"].numpy().tolist() == [wanted]
