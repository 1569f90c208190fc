"""Which tokenizer a file has, offline and in the graph."""

import json
import types

import pytest

from common.errors import UserError
from data.text import opening
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.released.released_tokenizer import ReleasedTokenizer
from data.text.tokenizer import Tokenizer
from tests.helpers.runs import builds


@pytest.mark.long
def test_the_name_of_a_file_tells_its_kind(tmp_path):
    corpus = builds.write_corpus(tmp_path / "corpus.txt")
    offline = opening.open_tokenizer(builds.train_spiece(tmp_path, corpus))
    assert isinstance(offline, Tokenizer)
    opening.check_graph(offline)
    graph = opening.graph_tokenizer(offline)
    assert isinstance(graph, GraphTokenizer)
    text = "the tower by 2000, lamps"
    assert graph.tokenize([text]).to_list() == [offline.encode(text)]


@pytest.mark.parametrize(
    "model, cutter, module",
    [
        ({"type": "WordPiece", "vocab": {}}, None, "wordpiece"),
        ({"type": "BPE", "vocab": {}}, "ByteLevel", "bpe"),
        ({"type": "BPE", "vocab": {}}, "Split", "character_bpe"),
        ({"type": "BPE", "vocab": {}}, None, "character_bpe"),
        ({"vocab": [["a", -1.0]]}, None, "unigram"),
        ({"type": "Unigram"}, None, "unigram"),
    ],
)
def test_a_released_model_names_its_graph(model, cutter, module):
    rules = {"model": model, "pre_tokenizer": cutter and {"type": cutter}}
    offline = types.SimpleNamespace(rules=rules, path="x.json")
    found = opening._graph_module(offline)
    assert found.__name__ == f"data.text.graph.{module}"


def test_a_model_without_a_graph_is_one_line(tmp_path):
    package = pytest.importorskip("tokenizers")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    vocab = {name: i for i, name in enumerate(names)}
    made = package.Tokenizer(package.models.WordLevel(vocab, "[UNK]"))
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    offline = opening.open_tokenizer(str(path))
    assert isinstance(offline, ReleasedTokenizer)
    assert json.loads(path.read_text())["model"]["type"] == "WordLevel"
    for check in (opening.check_graph, opening.graph_tokenizer):
        with pytest.raises(UserError, match="this file's model is WordLevel"):
            check(offline)
