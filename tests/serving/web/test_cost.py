"""What a request costs, and what one that costs too much is told."""

import numpy as np
import pytest

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web import cost  # noqa: E402
from serving.web.app import build_app  # noqa: E402

PREDICT = "/v1/models/xlnet:predict"
ROW = {"dtype": "int32", "shape": [None, None]}
DESCRIPTION = {
    "head": "pretraining",
    "labels": [],
    "max_seq_length": 64,
    "vocab_size": 1000,
    "signatures": {
        "serving_default": {
            "inputs": {"text": {"dtype": "string", "shape": [None]}},
            "outputs": {},
        },
        "fill_mask": {
            "inputs": {"text": {"dtype": "string", "shape": [None]}},
            "outputs": {},
        },
        "score": {
            "inputs": {"input_ids": ROW, "input_mask": ROW},
            "outputs": {},
        },
    },
}
SHAPES = {
    "model/word_embedding/lookup_table:0": (1000, 192),
    **{
        f"model/layer_{i}/{name}:0": shape
        for i in range(4)
        for name, shape in (
            ("rel_attn/q_kernel", (192, 4, 48)),
            ("ff/kernel_1", (192, 768)),
        )
    },
}


class Model:
    """Notes how many rows of which length ran together."""

    version = "1"
    variable_shapes = SHAPES
    description = DESCRIPTION

    def __init__(self):
        self.runs = []  # (rows, length)

    def __call__(self, inputs, signature, stop=None):
        first = next(iter(inputs.values()))
        self.runs.append((len(first), len(first[0])))
        ones = np.ones([len(first)], np.float32)
        return {"x": ones, "y": ones}


def client_of(model, **options):
    app = build_app(model, ServerOptions(**options))
    return testclient.TestClient(app, raise_server_exceptions=False)


def score_body(rows, length):
    row = {"input_ids": [1] * length, "input_mask": [1] * length}
    return {"signature_name": "score", "instances": [row] * rows}


def test_a_row_that_needs_too_much_memory_is_refused():
    model = Model()
    with client_of(model, max_tokens=100) as client:
        answer = client.post(PREDICT, json=score_body(1, 101))
        assert answer.status_code == 400, answer.text
        assert "--max_tokens" in answer.json()["error"]
        assert model.runs == []
        assert client.post(PREDICT, json=score_body(1, 100)).is_success


def test_a_request_of_many_rows_runs_in_bounded_slices():
    model = Model()
    with client_of(model, max_tokens=100, max_wait_ms=0.0) as client:
        answer = client.post(PREDICT, json=score_body(9, 30))
    assert len(answer.json()["predictions"]) == 9
    assert sum(rows for rows, _ in model.runs) == 9
    assert max(rows * length for rows, length in model.runs) <= 100


def test_the_default_bound_comes_from_the_free_memory():
    size = cost.model_size({}, SHAPES)
    assert size == (4, 4, 192, 768, 1000)
    told = {"n_layer": 2, "n_head": 3, "d_model": 5, "d_inner": 7}
    told |= {"vocab_size": 11}
    assert cost.model_size({"sizes": told}, {}) == (2, 3, 5, 7, 11)
    assert cost.model_size({"sizes": {"n_layer": 2}}, {}) is None
    # Measured: 8,000 ids in `score` took more than 6 GB.
    assert size.run_bytes(1, 8000) > 6e9
    bounds = [
        cost.Budget(DESCRIPTION, size, ServerOptions(), free).max_tokens
        for free in (0, 10**9, 8 * 10**9, 10**13)
    ]
    assert bounds[0] == 64 and bounds == sorted(set(bounds))
    assert size.run_bytes(1, bounds[1]) <= 10**9 / 4
    unknown = cost.Budget(DESCRIPTION, None, ServerOptions(), 10**9)
    ids = np.ones([20_000], np.int32)
    with pytest.raises(UserError, match="max_tokens"):
        unknown.check("score", [{"input_ids": ids, "input_mask": ids}])


def test_a_request_above_the_cost_bound_is_refused():
    model = Model()
    with client_of(model, max_cost=10_000) as client:
        masks = {"signature_name": "fill_mask", "instances": ["<mask> " * 60]}
        assert client.post(PREDICT, json=masks).is_success
        masks["instances"] *= 3
        answer = client.post(PREDICT, json=masks)
        assert answer.status_code == 400
        assert "--max_cost" in answer.json()["error"]
        assert len(model.runs) == 1


def test_masks_are_counted_as_one_piece_each():
    budget = cost.Budget(DESCRIPTION, None, ServerOptions(), 10**9)
    work = budget.row_work("fill_mask", {"text": "<mask>" * 10})
    assert (work.tokens, work.cost) == (18, 180)
    assert not work.chosen


def test_a_text_costs_what_it_becomes():
    """Before it is normalised: U+FDFA becomes 18 characters."""
    span = DESCRIPTION | {"head": "span"}
    plain, long = (
        cost.Budget(span, None, ServerOptions(), 10**9).row_work(
            "serving_default", {"question": "a", "paragraph": char * 2000}
        )
        for char in ("a", "\ufdfa")
    )
    assert (plain.chars, long.chars) == (2001, 36_001)
    assert long.cost > 15 * plain.cost and long.weight > 15 * plain.weight


@pytest.mark.parametrize(
    ("unit", "part", "symbols"),
    [
        ("char", "\ufdfa", 1000),  # not normalised
        ("byte", "\ufdfa", 3000),
        # Letters were refused as four bytes each.
        ("byte", "a", 1000),
        ("word", "ab  cd\n", 3000),
        # The end of a line is a symbol: these were half as many.
        ("word", "\n", 1000),
        ("piece", "\n", 1007),
        ("piece", "\u4e2d", 1007),
        ("piece", "ab", 1007),
    ],
)
def test_symbols_of_a_text_that_a_language_model_reads_whole(
    unit, part, symbols
):
    told = DESCRIPTION | {"head": "language_model", "unit": unit}
    budget = cost.Budget(told, None, ServerOptions(), 10**9)
    work = budget.row_work("score_line", {"text": part * 1000})
    assert work.tokens == work.cost == symbols + 1


def test_a_prompt_that_is_read_in_segments_runs_as_one_of_them():
    """All of it was counted: long prompts were refused."""
    told = DESCRIPTION | {
        "head": "language_model",
        "unit": "char",
        "mem_len": 7,
        "prompt_segment": 32,
    }
    budget = cost.Budget(told, None, ServerOptions(max_tokens=40), 10**9)
    long = {"text": "a" * 999, "max_new_tokens": 50}
    assert budget.check("generate_text", [long]) == (39, 4200, True, 999)
    short = {"text": "a" * 9, "max_new_tokens": 1}
    assert budget.row_work("generate_text", short) == (17, 74, True, 9)
    with pytest.raises(UserError, match="max_tokens"):
        budget.check("score_line", [{"text": "a" * 999}])  # one segment
    del told["prompt_segment"]  # an older export reads it whole
    older = cost.Budget(told, None, ServerOptions(max_tokens=40), 10**9)
    with pytest.raises(UserError, match="max_tokens"):
        older.check("generate_text", [long])


def test_the_time_of_a_text_counts_its_characters():
    told = DESCRIPTION | {"head": "classification", "max_seq_length": 16}
    budget = cost.Budget(told, None, ServerOptions(), 10**9)
    short = budget.check("serving_default", [{"text": "x" * 10}])
    long = budget.check("serving_default", [{"text": "x" * 8000}])
    assert short.tokens < long.tokens == 16
    assert long.cost == 16 and long.weight == 16 + 1000


IDS = {"input_ids": np.zeros([5], np.int32)}
CHOICES = {"query": "a" * 10, "documents": ["a" * 20, "a" * 60]}
LONG = {"query": "aa", "documents": ["a" * 400, "a" * 400]}
RANKING = {"data_options": {"passage_stride": 16, "max_passages": 3}}


@pytest.mark.parametrize(
    ("told", "signature", "row", "wanted"),
    [
        ({}, "score", IDS, (5, 5, True, 0)),
        ({}, "s", IDS | {"memory": np.zeros([1, 7, 2])}, (12, 12, True, 0)),
        ({}, "s", {"input_ids": np.zeros([3, 5])}, (15, 15, True, 0)),
        # Two sequences, each as long as all texts at most.
        ({}, "s", CHOICES, (2 * 53, 2 * 53, True, 90)),
        # Passages of documents: at most so many of each, or as the pieces say.
        (RANKING, "s", CHOICES, (5 * 53, 5 * 53, True, 90)),
        (RANKING | {"segments": 2}, "s", LONG, (6 * 64, 12 * 64, True, 802)),
        ({}, "tokenize", {"text": "a" * 30}, (1, 16, False, 30)),
        ({}, "s", {"text": "a" * 400}, (64, 64, False, 400)),
        ({"segments": 3}, "s", {"text": "a" * 400}, (64, 192, False, 400)),
        ({"segments": 9}, "s", {"text": "a" * 400}, (64, 256, False, 400)),
        # Windows of a paragraph: 16 of them at once.
        ({"head": "span"}, "s", {"p": "a" * 1100}, (1024, 1152, False, 1100)),
        (
            {"head": "language_model", "unit": "char"},
            "s",
            {"text": "a" * 9, "max_new_tokens": 3},
            (13, 10 + 3 * 64, True, 9),
        ),
    ],
)
def test_what_a_row_asks_for(told, signature, row, wanted):
    budget = cost.Budget(DESCRIPTION | told, None, ServerOptions(), 10**9)
    assert budget.row_work(signature, row) == wanted


def test_places_that_are_filled_at_once_take_one_run():
    made = {"fill_mask": {"inputs": {}, "outputs": {"independent": {}}}}
    told = DESCRIPTION | {"signatures": made}
    budget = cost.Budget(told, None, ServerOptions(), 10**9)
    work = budget.row_work("fill_mask", {"text": "<mask>" * 10})
    assert (work.tokens, work.cost) == (18, 18)


def test_a_request_is_judged_by_its_longest_row_and_by_all():
    rows = [{"input_ids": np.zeros([n], np.int32)} for n in (4, 9, 6)]
    options = ServerOptions(max_tokens=9, max_cost=19)
    budget = cost.Budget(DESCRIPTION, None, options, 10**9)
    assert budget.check("score", rows) == (9, 9, True, 0)
    wide = [rows[0], {"input_ids": np.zeros([10], np.int32)}]
    with pytest.raises(UserError, match=r"^instances\[1\]: .* 9 .*found 10;"):
        budget.check("score", wide)
    with pytest.raises(UserError, match="about 23 tokens .*, at most 19 are"):
        budget.check("score", [*rows, rows[0]])


def test_rows_that_run_together_are_judged_together():
    rows = [{"input_ids": np.zeros([n], np.int32)} for n in (4, 9)]
    options = ServerOptions(max_tokens=17)
    budget = cost.Budget(DESCRIPTION, None, options, 10**9)
    budget.check("generate", rows)
    with pytest.raises(UserError, match="'generate' run together: .* found 18"):
        budget.check("generate", rows, whole=True)
    budget.check("generate", rows[:1] * 4, whole=True)


def test_rows_that_are_drawn_together_run_together():
    """A row's tokens come from its place in the run."""

    class Drawing(Model):
        settings = ("max_new_tokens", "temperature", "top_k", "seed")
        signature = {
            "inputs": {
                "input_ids": ROW,
                **{n: {"dtype": "int32", "shape": []} for n in settings},
            },
            "outputs": {},
        }
        made = DESCRIPTION["signatures"] | {"generate": signature}
        description = DESCRIPTION | {"signatures": made}

    model = Drawing()
    asked = dict.fromkeys(Drawing.settings, 1) | {"input_ids": [[1, 2]] * 5}
    body = {"signature_name": "generate", "inputs": asked}
    with client_of(model, max_batch_size=2) as client:
        assert client.post(PREDICT, json=body).is_success
    assert model.runs == [(5, 2)]
    with client_of(model, max_tokens=9) as client:
        answer = client.post(PREDICT, json=body)
    assert answer.status_code == 400 and len(model.runs) == 1
    assert "'generate' run together" in answer.json()["error"]
