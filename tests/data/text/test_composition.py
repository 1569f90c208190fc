"""Rules of composed characters against unicodedata."""

import unicodedata

import sentencepiece

from data.text import composition


def test_rules_are_all_spellings_of_every_composed_character(tmp_path):
    """Against `unicodedata`: NFC and NFD of a character give the same."""
    table = composition.rules(False)
    path = tmp_path / "rules.tsv"
    path.write_text(composition.to_tsv(table))
    sentencepiece.set_min_log_level(2)
    normalise = sentencepiece.SentencePieceNormalizer(
        rule_tsv=str(path),
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=False,
    ).normalize
    composed = [
        chr(p)
        for p in range(0x110000)
        if not 0xD800 <= p < 0xE000
        and unicodedata.normalize("NFD", chr(p)) != chr(p)
    ]
    apart = [unicodedata.normalize("NFD", c) for c in composed]
    again = [unicodedata.normalize("NFC", c) for c in composed]
    assert len(composed) > 13000
    assert normalise(apart) == normalise(composed) == normalise(again)
