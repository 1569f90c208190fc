"""Tables of names, ids of symbols and shapes of folders of Hugging Face."""

import numpy as np
import pytest

from common.errors import UserError
from modeling.encoders import hf_names
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.hf_names import FileNames, HuggingFaceNames


class Toy(FileNames):
    class_prefix = "Toy"
    scope = "toy."
    config_class = BertConfig
    token_ids = {"pad_token_id": ("pad", 0), "bos_token_id": ("bos", None)}

    def head_shapes(self, arrays, config):
        yield "kernel", [2, 3, 4], [2, 12]


def test_names_of_dense_layers_and_norms():
    assert hf_names.dense("a", "b.c") == {
        "a/kernel": ("b.c.weight", True),
        "a/bias": ("b.c.bias", False),
    }
    assert list(hf_names.dense("a", "b", bias=False)) == ["a/kernel"]
    assert hf_names.norm("a", "b") == {
        "a/gamma": ("b.weight", False),
        "a/beta": ("b.bias", False),
    }


def test_an_array_with_an_axis_per_head_changes_its_shape():
    array = np.arange(24.0).reshape(2, 12)
    arrays = {"kernel": array}
    Toy().from_theirs(arrays, None, "f")
    assert arrays["kernel"].shape == (2, 3, 4)
    assert arrays["kernel"][1, 2, 3] == 23
    Toy().to_theirs(arrays, None)
    np.testing.assert_array_equal(arrays["kernel"], array)
    with pytest.raises(UserError, match=r"f: `kernel` has shape \[5\], want"):
        Toy().from_theirs({"kernel": np.zeros(5)}, None, "f")


def test_ids_of_symbols_are_put_right_where_they_are_wrong():
    theirs = {"vocab_size": 10, "pad_token_id": 7}
    Toy().write_token_ids(theirs, {"pad": 5, "bos": -1})
    assert theirs == {"vocab_size": 10, "pad_token_id": 5}
    theirs = {"vocab_size": 10}
    Toy().write_token_ids(theirs, {"pad": 0, "bos": 3})
    assert theirs == {"vocab_size": 10, "bos_token_id": 3}
    # An id that the table does not have is none.
    theirs = {"vocab_size": 4, "bos_token_id": 9}
    Toy().write_token_ids(theirs, {})
    assert theirs == {"vocab_size": 4, "bos_token_id": None}
    theirs = {"vocab_size": 4, "bos_token_id": [1, 2]}
    Toy().write_token_ids(theirs, {})
    assert theirs["bos_token_id"] == [1, 2]
    Toy().write_token_ids(theirs, {"bos": 3})
    assert theirs["bos_token_id"] == 3


def test_classes_of_heads():
    names = Toy()
    assert names.class_name("encoder") == "ToyModel"
    assert names.class_name("span") == "ToyForQuestionAnswering"
    assert names.head_names("encoder") == {}
    assert HuggingFaceNames().old_names("x.gamma") == "x.gamma"


def test_a_wrong_file_is_named():
    with pytest.raises(UserError, match="^f.json: the configuration lacks"):
        Toy().read_config({"vocab_size": 3}, "f.json")
