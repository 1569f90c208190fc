"""Numbers of a configuration that no machine can hold name their field."""

import json
import re

import pytest

from common.errors import UserError
from common.process import memory
from modeling import XLNetConfig
from modeling.checkpoints import hf, restore
from modeling.encoders import registry, sizes
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.conftest import ROOT

SIZES = dict(vocab_size=17, d_model=6, n_layer=2, n_head=3, d_inner=10)


@pytest.mark.parametrize("name", ["n_layer", "vocab_size", "d_inner", "n_head"])
@pytest.mark.parametrize("kind", [XLNetConfig, TransformerXLConfig])
def test_the_field_is_named(kind, name):
    config = kind(**(SIZES | {"d_head": 2, name: 10**12}))
    with pytest.raises(UserError, match=f"`{name}` 1000000000000 of") as e:
        registry.build_encoder(config)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "change",
    [
        {"encoding": "shaw", "max_positions": 10**12},
        {"encoding": "per_layer", "max_positions": 10**12},
        {"vocab_size": 10**12, "cutoffs": (5,), "div_val": 2},
    ],
)
def test_learned_positions_and_clusters_count(change):
    fields = SIZES | {"d_head": 2} | change
    name = "max_positions" if "encoding" in change else "vocab_size"
    with pytest.raises(UserError, match=f"`{name}` 1000000000000 of"):
        registry.build_encoder(TransformerXLConfig(**fields))
    fields[name] = 40
    config = TransformerXLConfig(**fields)
    encoder = registry.build_encoder(config)
    found = sum(v.shape.num_elements() for v in encoder.variables)
    assert 0.5 * found < sizes.parameters(config) <= found


@pytest.mark.parametrize("digits", [400, 4000])
def test_numbers_that_no_float_holds(digits):
    value = 10 ** (digits - 1)
    config = BertConfig(**(SIZES | {"vocab_size": value}))
    with pytest.raises(UserError, match=r"`vocab_size` 100000000\.\.\. ") as e:
        registry.build_encoder(config)
    assert f"({digits} digits)" in str(e.value) and len(str(e.value)) < 300


def test_places_and_many_small_layers_count():
    config = BertConfig(**(SIZES | {"max_position_embeddings": 10**13}))
    with pytest.raises(UserError, match="`max_position_embeddings`"):
        registry.build_encoder(config)
    small = BertConfig(**(SIZES | {"n_layer": 10**9}))
    with pytest.raises(UserError, match="`n_layer` 1000000000"):
        registry.build_encoder(small)


def test_what_fits_is_built_and_slots_count(monkeypatch):
    config = XLNetConfig(**SIZES, d_head=2)
    encoder = registry.build_encoder(config)
    found = sum(v.shape.num_elements() for v in encoder.variables)
    assert 0.5 * found < sizes.parameters(config) <= found
    room = 8 * sizes.parameters(config) + 200_000
    monkeypatch.setattr(memory, "room", lambda: (room, "the machine"))
    sizes.check(config, copies=2)
    with pytest.raises(UserError, match="the machine leaves"):
        sizes.check(config, copies=3)


def test_narrow_embeddings_and_groups_of_albert_count_as_they_are():
    shape = SIZES | {"vocab_size": 300, "n_layer": 6}
    for groups, inner in ((1, 1), (4, 2)):
        config = AlbertConfig(
            **shape,
            embedding_size=2,
            num_groups=groups,
            inner_group_num=inner,
            max_position_embeddings=7,
        )
        encoder = registry.build_encoder(config)
        found = sum(v.shape.num_elements() for v in encoder.variables)
        assert 0.5 * found < sizes.parameters(config) <= found
    xxlarge = AlbertConfig(30000, 4096, 12, 64, 16384)
    # With norms, biases and pooler it has 222.6M.
    assert 200e6 < sizes.parameters(xxlarge) < 222.6e6
    for name in ("embedding_size", "inner_group_num"):
        config = AlbertConfig(**(shape | {name: 10**12}))
        with pytest.raises(UserError, match=f"`{name}` 1000000000000 of"):
            sizes.check(config)


def test_the_file_of_weights_that_do_not_fit_is_named(tmp_path):
    config = BertConfig(**(SIZES | {"n_layer": 10**9}))
    path = registry.write_config(str(tmp_path), config)
    with pytest.raises(UserError, match=f"^{re.escape(path)}: out of memory"):
        restore.find_config(str(tmp_path))
    # A plan, or a comparison of a folder's settings, reads no weights.
    assert registry.read_config(path).n_layer == 10**9


def test_a_released_folder_is_refused_before_names_are_made(tmp_path):
    stored = ROOT / "tests/golden/hf_heads/bert_sequence/config.json"
    config = json.loads(stored.read_text()) | {"num_hidden_layers": 10**9}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        UserError, match="config.json: out of memory: `n_layer`"
    ):
        hf.read_config(str(tmp_path))
