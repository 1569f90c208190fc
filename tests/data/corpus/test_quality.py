"""Near duplicates and repeated lines."""

import random

import pytest

from data.corpus import quality
from tests.data.corpus.toy_texts import changed, prose

SCRIPTS = {
    "zh": "磨坊在河边已经很久没有人住过了冬天过去以后一个农民买下了桥旁所有的房子",
    "th": "โรงสีริมแม่น้ำเก่ามากแล้วไม่มีใครจำได้ว่าใครสร้างและชาวนาคนหนึ่งก็ซื้อบ้าน",
    "hi": "नदी के किनारे पुरानी मिल थी और किसी को याद नहीं कि उसे किसने बनाया था",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_near_duplicates_in_other_scripts(script):
    rng = random.Random(script)
    units = list(SCRIPTS[script])
    if script == "hi":
        units = SCRIPTS[script].split()
    blank = " " if script == "hi" else ""
    one = [blank.join(rng.choices(units, k=90)) for _ in range(8)]
    other = [blank.join(rng.choices(units, k=90)) for _ in range(8)]
    near = [*one[:-1], one[-1][:-3]]
    index = quality.NearDuplicates(0.8)
    index.add(7, quality.signature(one))
    assert index.find(quality.signature(other)) is None
    number, same = index.find(quality.signature(near))
    assert number == 7 and same > 0.8


def test_similarity_is_the_share_of_common_runs():
    one = prose(3, 60)
    for places in (20, 60, 120):
        other = changed(one, places)
        sets = []
        for lines in (one, other):
            words = "\n".join(lines).lower().split()
            sets.append(
                {tuple(words[i : i + 5]) for i in range(len(words) - 4)}
            )
        exact = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        same = quality.signature(one) == quality.signature(other)
        # The standard error of 128 draws is at most 0.044.
        assert same.mean() == pytest.approx(exact, abs=0.14)


def test_repeated_share_and_line_hashes():
    lines = ["abc", "de", " abc ", "f", "abc"]
    hashes = quality.line_hashes(lines)
    assert len(set(hashes.tolist())) == 3
    assert quality.repeated_share(lines, hashes) == pytest.approx(8 / 14)
    assert quality.repeated_share(lines[:2], hashes[:2]) == 0.0
