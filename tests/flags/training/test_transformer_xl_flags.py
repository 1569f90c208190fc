"""Sizes of a Transformer-XL: flags, a file, and what T decides."""

import dataclasses

import pytest

from common.errors import UserError
from flags.training import causal_lm_flags, transformer_xl_flags
from modeling.encoders.registry import write_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.xlnet.config import XLNetConfig
from tests.flags.fresh_flags import parsed

SIZES = (
    "--n_layer=2",
    "--d_model=6",
    "--n_head=3",
    "--d_head=4",
    "--d_inner=8",
)


def read(*arguments, config=None, vocab_size=19, **more):
    with parsed(transformer_xl_flags.define, *arguments):
        return transformer_xl_flags.from_flags(vocab_size, config, **more)


@pytest.mark.parametrize(
    "arguments, memory, positions",
    [
        ([], 9, None),
        (["--mem_len=5"], 5, None),
        (["--encoding=absolute"], 0, 9),
        (["--encoding=per_layer", "--mem_len=5"], 5, 9),
        (["--encoding=shaw"], 9, 18),
        (["--encoding=shaw", "--mem_len=5"], 5, 14),
    ],
)
def test_memory_and_positions_follow_from_t(arguments, memory, positions):
    found = read(*SIZES, *arguments, seq_len=9)
    assert found.mem_len == memory
    if positions is not None:
        assert found.max_positions == positions
    assert (found.n_layer, found.d_inner, found.vocab_size) == (2, 8, 19)


def test_a_file_has_the_sizes_and_flags_the_rest(tmp_path):
    known = TransformerXLConfig(
        vocab_size=19, n_layer=2, d_model=6, n_head=3, d_head=4, d_inner=8
    )
    path = write_config(str(tmp_path), known)
    argument = f"--model_config_path={path}"
    found = read(argument, "--mem_len=3", "--dropout=0.25")
    assert found == dataclasses.replace(known, mem_len=3, dropout=0.25)
    with pytest.raises(UserError, match="`d_inner` wanted 9, found 8"):
        read(argument, "--d_inner=9")
    with pytest.raises(UserError, match="vocabulary of the data 20, found 19"):
        read(argument, vocab_size=20)


def test_another_kind_of_model_is_refused():
    with pytest.raises(UserError, match="model_type 'xlnet', wanted 'transfor"):
        read(config=XLNetConfig.base(19))


@pytest.mark.parametrize(
    "encoding, flag",
    [
        ("relative", "--max_positions=7"),
        ("absolute", "--clamp_len=3"),
        ("per_layer", "--eval_clamp_len=3"),
        ("absolute", "--sweep_clamp_lens=2,3"),
        ("shaw", "--nountie_r"),
    ],
)
def test_a_flag_that_an_encoding_ignores_is_refused(encoding, flag):
    able = "shaw" if "max_positions" in flag else "relative"

    def config(*arguments):
        folders = ("--data_dir=d", "--model_dir=m")
        with parsed(causal_lm_flags.define, *folders, *SIZES, *arguments):
            return transformer_xl_flags.from_flags(19, seq_len=4)

    config(f"--encoding={able}", flag)
    config(f"--encoding={encoding}", "--clamp_len=-1")
    name = flag.partition("=")[0].replace("--no", "--")
    with pytest.raises(UserError, match=f"^{name}.*, found {encoding}: leave"):
        config(f"--encoding={encoding}", flag)
