"""Lines about the training of a vocabulary."""

from data.corpus import vocabulary_progress


def test_lines_of_the_log():
    log = ["trainer_spec {", "I0000 x.cc:1] Loaded all 7000 sentences"]
    log += [f"x.cc(9) LOG(INFO) Added: freq=3 size={i} all=4" for i in (5, 95)]
    log += ["E0000 x.cc:3] no space"]
    assert list(vocabulary_progress.lines(log, 100)) == [
        "vocabulary: 7,000 sentences",
        "vocabulary: 95 pieces of 100",
        "E0000 x.cc:3] no space",
    ]
