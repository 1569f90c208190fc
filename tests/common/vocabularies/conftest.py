"""A vocabulary without a record."""

import io

import pytest
import sentencepiece


@pytest.fixture(scope="module")
def plain():
    """A vocabulary of another project: no record."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a plain text of words", "Ünder é"] * 30),
        model_writer=model,
        vocab_size=50,
        model_type="bpe",
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>",
        user_defined_symbols="<eop>",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture
def path(tmp_path, plain):
    path = tmp_path / "spiece.model"
    path.write_bytes(plain)
    return path
