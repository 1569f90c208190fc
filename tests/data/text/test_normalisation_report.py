"""Only lost marks make a warning."""

from common.vocabularies.text_settings import COMPOSED, ORIGINAL, TextSettings
from data.text.normalisation_report import Changes


def test_only_lost_marks_make_a_warning():
    rules = {"normalization_rule_name": "nmt_nfkc"}
    for settings, line, warned in (
        (TextSettings(ORIGINAL), "plain text", False),
        (TextSettings(ORIGINAL), "がぎぐ", True),
        (TextSettings(ORIGINAL), "２０００，", False),
        (TextSettings(COMPOSED), "がぎぐ，", False),
        (TextSettings(COMPOSED, True), "ÄÖÜ", False),
    ):
        from data.text.normalization import normalise

        changes = Changes(settings, rules)
        new = normalise(line, settings.uncased, settings.keep_accents)
        changes.add(line, new)
        assert (len([x for x in changes.report() if "warning" in x]) > 0) == (
            warned
        ), (settings, line)
