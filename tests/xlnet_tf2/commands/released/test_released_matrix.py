"""Every command with every kind of tokenizer: it works, or says why in a line.

Folders are tiny and made here; what a cell answers is compared where two ways
lead to the same answer.
"""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from common.vocabularies import vocabulary
from data.text.opening import graph_tokenizer, open_tokenizer
from tests.helpers import released
from tests.helpers.released_commands import AFTER, COMMANDS, TAGGED, Runs
from tests.helpers.released_folders import CONTEXT, KINDS, TAGS, TEXTS

pytest.importorskip("tokenizers")

XLNET = ["xlnet spiece", "xlnet json"]
MASKED = [name for name in KINDS if name not in XLNET]
OTHERS = [name for name in KINDS if name != "xlnet spiece"]
# Command -> {kind: what the one line of its refusal says}; all else works.
REFUSED = {
    "score": dict.fromkeys(MASKED, "needs an encoder with query stream"),
    "generate": dict.fromkeys(MASKED, "needs an encoder with query stream"),
    "export": dict.fromkeys(KINDS, "--task=embedding or --task=lm"),
    "to tf1": dict.fromkeys(MASKED, "no TF1 checkpoints of"),
    "lm": dict.fromkeys(KINDS, "model_type '.*', wanted 'transformer_xl'"),
    "records": dict.fromkeys(OTHERS, "the tokenizer of released weights; give"),
    "lm records": dict.fromkeys(OTHERS, "needs --vocab_file=NAME.model: make")
    | {"albert spiece": "the tokenizer of released weights; give"},
    "inspect": dict.fromkeys(OTHERS, "is not the one of the data: wanted SHA"),
    "pretrain": dict.fromkeys(MASKED, "no records can be built: fine-tune"),
}
# Under a second each.
QUICK = ["embed", "fill", "to native", "to hf", "explain", *REFUSED]
QUICK_CELLS = [
    *((command, kind) for command in QUICK for kind in KINDS),
    ("rank cosine", "bert vocab"),
    ("classify", "bert vocab"),
]
# Of the others one or two of each command, the tokenizers by turns.
SLOW_CELLS = [
    *(
        (command, kind)
        for kind in (
            "xlnet json",
            "bert vocab",
            "albert json",
            "modernbert bpe",
        )
        for command in ("classify", "predict classes", "tuned to hf")
    ),
    ("pretrain", "xlnet json"),
    ("predict tags", "xlnet json"),
    ("predict tags", "modernbert bpe"),
    ("predict spans", "bert vocab"),
    ("predict choices", "albert json"),
    ("predict ranker", "bert vocab"),
    ("rank knrm", "albert json"),
    ("rank cosine", "albert json"),
    ("multitask", "modernbert bpe"),
    ("average", "xlnet json"),
    ("ensemble", "bert vocab"),
    ("serve", "xlnet json"),
    ("serve", "modernbert bpe"),
    ("export lm", "bert vocab"),
    ("export embedding", "xlnet json"),
]


def _cells():
    """All of them; those that no tier has run by hand (`-m bench`)."""
    late = {("pretrain", kind) for kind in XLNET}
    for command in COMMANDS:
        for kind in KINDS:
            cell, marks = (command, kind), [pytest.mark.bench]
            if cell in QUICK_CELLS and cell not in late:
                marks = []
            elif cell in SLOW_CELLS:
                marks = [pytest.mark.slow]
            yield pytest.param(command, kind, marks=marks)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What each command has left; none runs twice."""
    return Runs(tmp_path_factory.mktemp)


@pytest.mark.long
@pytest.mark.parametrize("command, kind", list(_cells()))
def test_cell(runs, command, kind):
    place, done = runs(command, kind)
    said = (done.stdout + done.stderr)[-3000:]
    assert "Traceback" not in said, said
    wanted = REFUSED.get(command, {}).get(kind)
    if wanted is None:
        assert done.returncode == 0, said
        CHECKS.get(command, lambda *_: None)(runs, kind, place, done)
        return
    assert done.returncode == 1, said
    errors = [x for x in done.stderr.splitlines() if x.startswith("error:")]
    assert len(errors) == 1 and re.search(wanted, errors[0]), said
    assert done.stderr.splitlines()[-1] == errors[0], said


def test_every_kind_and_command_is_in_some_tier():
    """A command that is not asked of any folder by CI would rot."""
    asked = {command for command, _ in [*QUICK_CELLS, *SLOW_CELLS]}
    asked |= {AFTER[command] for command in asked if command in AFTER}
    asked |= {AFTER[command] for command in asked if command in AFTER}
    assert asked == set(COMMANDS)


# --- What a cell that works must give ----------------------------------------


def _tokenizer_in(folder):
    path = vocabulary.find(str(folder))
    assert path, sorted(x.name for x in folder.iterdir())
    return open_tokenizer(path)


def _same_ids(runs, kind, place, done):
    """A converted folder's tokenizer gives the ids of the one it came from."""
    old, new = _tokenizer_in(runs.folder(kind)), _tokenizer_in(place / "new")
    words = ["the", "river", "(x)", "2,000,", "U.S."]
    for text in [*TEXTS, *released.ODD, *released.random_texts(200, words, 1)]:
        assert new.encode(text) == old.encode(text), text


def _answers(place):
    lines = (place / "answers.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _predicted(place, name):
    """Rows of a run's file of predictions, without its header."""
    lines = (place / "out" / "predictions" / name).read_text().splitlines()
    return [line.split("\t") for line in lines[1:]]


def _classified(place, found):
    """Probabilities are those of the run's own prediction."""
    rows = _predicted(place, "test_predictions.tsv")
    wanted = [[float(p) for p in row[-2:]] for row in rows]
    assert len(wanted) >= len(found) >= len(TEXTS)
    np.testing.assert_allclose(found, wanted[: len(found)], atol=1e-5)


def _same_classes(runs, kind, place, done):
    found = [list(x["probabilities"].values()) for x in _answers(place)]
    _classified(runs("classify", kind)[0], found)


def _same_served(runs, kind, place, done):
    answers = json.loads(done.stdout)["predictions"]
    found = [x["probabilities"] for x in answers]
    _classified(runs("classify", kind)[0], found)


def _same_tags(runs, kind, place, done):
    """The first piece of each word has the tag that the run predicted."""
    path = runs("tag", kind)[0] / "out/predictions/test_predictions.conll"
    lines = path.read_text().splitlines()[: len(TAGS)]
    (answer,) = _answers(place)
    at = 0
    for (word, _), line in zip(TAGS, lines, strict=True):
        spans = zip(answer["piece_starts"], answer["piece_ends"], strict=True)
        held = [i for i, (start, end) in enumerate(spans) if start <= at < end]
        assert answer["labels"][held[0]] == line.split("\t")[-1], line
        at += len(word) + 1
    assert max(answer["piece_ends"]) == len(TAGGED)


def _same_span(runs, kind, place, done):
    (answer,) = _answers(place)
    found = CONTEXT[answer["answer_start"] : answer["answer_end"]]
    assert answer["answer"] == found
    folder = runs("squad", kind)[0] / "out" / "predictions"
    wanted = json.loads((folder / "nbest_predictions.json").read_text())["1"]
    count = len(wanted)
    assert answer["nbest_text"][:count] == [x["text"] for x in wanted]
    np.testing.assert_allclose(
        answer["nbest_probability"][:count],
        [x["probability"] for x in wanted],
        atol=1e-5,
    )


def _same_choices(runs, kind, place, done):
    rows = _predicted(runs("race", kind)[0], "dev_predictions.tsv")
    found = [list(x["probabilities"].values()) for x in _answers(place)]
    wanted = [
        [float(p) for p in row[-4:]] for row in rows if "middle" in row[0]
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def _same_ranks(runs, kind, place, done):
    """Scores of the first fold's test queries are those of its run."""
    folder = runs("rank cross", kind)[0] / "out" / "runs"
    answers = _answers(place)
    lines = (folder / "cross_encoder.seed0.fold0.run").read_text().splitlines()
    for line in lines:
        query, _, document, _, score, _ = line.split()
        found = answers[int(query)]["scores"][int(document[1:])]
        assert found == pytest.approx(float(score), abs=1e-5)
    assert len(lines) > 10


def _places(runs, kind, place, done):
    """Ids and characters of the export's graph are the offline ones."""
    offline = _tokenizer_in(runs.folder(kind))
    graph = graph_tokenizer(offline)
    texts = [*TEXTS, *released.ODD]
    found = graph.tokenize_with_offsets(tf.constant(texts))
    rows = zip(texts, *(x.to_list() for x in found), strict=True)
    for text, *row in rows:
        assert row == [x.tolist() for x in offline.encode_spans(text)], text


def _vector(runs, kind, place, done):
    vector = json.loads(done.stdout.splitlines()[-1])["vector"]
    assert len(vector) == 12 and np.std(vector) > 0.01


def _filled(runs, kind, place, done):
    """As text: no mark of a word's beginning, no mark of a word's middle."""
    answer = json.loads(done.stdout.splitlines()[0])
    assert answer["text"].startswith("the"), answer
    assert not re.search("\u2581|\u0120| ##", answer["text"]), answer


CHECKS = {
    "embed": _vector,
    "fill": _filled,
    "to native": _same_ids,
    "to tf1": _same_ids,
    "to hf": _same_ids,
    "tuned to hf": _same_ids,
    "export lm": _places,
    "predict classes": _same_classes,
    "predict tags": _same_tags,
    "predict spans": _same_span,
    "predict choices": _same_choices,
    "predict ranker": _same_ranks,
    "ensemble": _same_classes,
    "serve": _same_served,
}
