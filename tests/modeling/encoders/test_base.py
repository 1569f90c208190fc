"""Packed rows as arguments, and layers that a configuration describes."""

import types

import pytest

from modeling.encoders.base import ConfiguredLayer, Encoder, EncoderOutput
from modeling.encoders.bert.config import BertConfig


class Toy(Encoder):
    scope = "model/toy/"


def test_packed_rows_are_documents_with_their_positions():
    packing = types.SimpleNamespace(
        documents=lambda: "documents", positions=lambda: "positions"
    )
    assert Toy().packed_arguments(packing) == {
        "documents": "documents",
        "positions": "positions",
    }
    with pytest.raises(NotImplementedError):
        Toy().variable_paths()


def test_what_an_encoder_does_not_give_is_none():
    output = EncoderOutput("states")
    assert output.sequence_output == "states"
    assert set(output[1:]) == {None}


def test_a_layer_keeps_its_configuration_in_its_file():
    config = BertConfig(9, 4, 1, 2, 6, dropout=0.25)
    layer = ConfiguredLayer(config.to_dict(), name="x")
    assert layer.config == config
    again = ConfiguredLayer.from_config(layer.get_config())
    assert again.config == config and again.name == "x"
