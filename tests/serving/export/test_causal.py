"""What an export of a left-to-right model says and holds."""

import pytest

from serving.export import causal
from serving.export.causal import export_causal
from serving.export.exporter import SIZES
from serving.generation import causal_decoder
from tests.serving.generation.asked_models import asked

WORDS = ["<eos>", "a", "b", "<unk>"]


@pytest.fixture
def export(monkeypatch, tmp_path):
    """Exports a model of words; what would be published."""

    def start(line_end, words, **changes):
        lm = asked(line_end, words, **changes)
        path = tmp_path / "words.json"
        lm.vocabulary.save(str(path))
        lm = lm._replace(vocabulary_path=str(path))
        seen = []
        monkeypatch.setattr(
            causal, "publish", lambda *given: seen.append(given) or "out/1"
        )
        assert export_causal("out", lm, "name", check=False) == "out/1"
        (given,) = seen
        assert (given[0], given[5:]) == ("out", ("name", False))
        assert given[3] == {"words.json": path.read_bytes()}
        return lm, *given[1:3], given[4]

    return start


def test_the_description_is_of_the_model_and_its_vocabulary(export):
    lm, root, signatures, about = export("eos", WORDS, mem_len=7)
    assert about["max_seq_length"] == about["mem_len"] == 7
    assert about["prompt_segment"] == causal_decoder.SEGMENT
    assert about["vocab_size"] == 4 and about["unit"] == "word"
    assert about["vocabulary_sha256"] == lm.vocabulary.sha256
    assert about["sizes"] == {
        name: getattr(lm.model.config, name) for name in SIZES
    }
    assert about["model_type"] == "transformer_xl"
    assert about["precision"] == "float32"
    assert "weights" not in about  # it was made here
    held = {id(variable) for variable in root.all_variables}
    assert held == {id(variable) for variable in lm.model.variables}
    assert root.tokenizer is not None
    assert {"encode", "score", "generate", "generate_text"} <= set(signatures)
    assert list(signatures["serving_default"].inputs) == ["text"]


def test_a_model_without_memory_or_graph_s_words_takes_ids(export):
    _, root, signatures, about = export(
        "marks", ["<S>", "a", "<UNK>"], mem_len=0
    )
    assert (about["mem_len"], about["max_seq_length"]) == (0, 1)
    assert root.tokenizer is None
    assert set(signatures) == {"encode", "score", "serving_default"}
    assert "input_ids" in signatures["serving_default"].inputs
