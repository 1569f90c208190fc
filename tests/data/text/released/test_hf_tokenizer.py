"""`tokenizer.json` of our vocabularies: ids in the package are ours."""

import json
import unicodedata

import pytest

from common.contract import symbols
from common.contract.symbols import CLS_LAST, LAYOUTS
from common.errors import UserError
from common.vocabularies.spiece_messages import messages
from common.vocabularies.text_settings import TextSettings
from data import train_sentencepiece
from data.corpus.options import SentencePieceOptions
from data.text.masked import MaskedEncoder
from data.text.released import hf_folder, hf_tokenizer
from data.text.tokenizer import Tokenizer
from tests.helpers import languages, released

tokenizers = pytest.importorskip("tokenizers")
LINES = [line for name in languages.LANGUAGES for line in languages.lines(name)]
SPELLINGS = [
    unicodedata.normalize(form, line)
    for form in ("NFC", "NFD", "NFKD")
    for line in LINES
]
# Marks in the order in which Arabic and Hebrew are typed, and in rare ones.
MARKS = [
    "\u0634\u064e\u062f\u0651\u064e\u0629 \u0645\u064f\u062d\u064e\u0645"
    "\u0651\u064e\u062f",
    "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05d1\u05bc\u05b0",
    "x\u0302\u0323 e\u0302\u0323 e\u0323\u0302",
]
# Symbols are text; quotes, numbers, what vanishes at a text's beginning.
HARD = [
    "a<sep>b <cls>[CLS]<pad>",
    "<mask> x<unk>",
    "in 2000, or 12,000, and 3,4,5,",
    "``a''b ''",
    "\u0301a\x9f b",
    "\x9fa \u200b b\u3000\u2581c",
    " \t\n ",
]
TEXTS = [*SPELLINGS, *MARKS, *HARD, *released.ODD, *languages.COMPOSED]
KINDS = [
    ("composed", False, "unigram"),
    ("composed", True, "unigram"),
    ("original", False, "unigram"),
    ("original", True, "unigram"),
    ("composed", False, "bpe"),
    ("original", False, "bpe"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(rule, uncased, type) -> its vocabulary, of nine languages."""
    folder = tmp_path_factory.mktemp("vocabularies")
    corpus = languages.write_corpus(folder / "text.txt", copies=8)
    made = {}

    def get(rule, uncased, kind):
        if (rule, uncased, kind) not in made:
            prefix = f"{folder}/{rule}{uncased:d}{kind}"
            train_sentencepiece.train(
                SentencePieceOptions(
                    input_glob=corpus,
                    model_prefix=prefix,
                    vocab_size=620,
                    character_coverage=1.0,
                    model_type=kind,
                    text=TextSettings(rule, uncased),
                ),
                log=lambda line: None,
            )
            made[rule, uncased, kind] = Tokenizer(prefix + ".model")
        return made[rule, uncased, kind]

    return get


def _package(tokenizer, layout=CLS_LAST):
    content = hf_tokenizer.build(tokenizer, layout).decode()
    package = tokenizers.Tokenizer.from_str(content)
    package.encode_special_tokens = True
    return package


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: "-".join(map(str, k)))
def test_ids_are_ours(trained, kind):
    tokenizer = trained(*kind)
    words = [word for line in LINES for word in line.split()]
    texts = TEXTS + released.random_texts(300, words, seed=1)
    texts += hf_folder.probes(tokenizer, 300)
    package = _package(tokenizer)
    assert hf_folder.different(tokenizer, package, texts) == []
    # The comparison can fail.
    package.normalizer = tokenizers.normalizers.NFC()
    assert hf_folder.different(tokenizer, package, texts)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_laid_out_as_the_encoder_wants_them(trained, layout):
    tokenizer = trained("composed", False, "unigram")
    package, ids = _package(tokenizer, layout), tokenizer.symbols
    one, two = tokenizer.encode("a b"), tokenizer.encode("c")
    row = package.encode("a b", "c")
    alone = package.encode("a b")
    if layout == CLS_LAST:
        assert row.ids == [*one, ids.sep, *two, ids.sep, ids.cls]
        types = [0] * (len(one) + 1) + [1] * (len(two) + 1) + [2]
        assert alone.ids == [*one, ids.sep, ids.cls]
    else:
        between = symbols.between(layout, ids)
        assert row.ids == [ids.cls, *one, *between, *two, ids.sep]
        second = int(not symbols.has_one_segment(layout))
        types = [0] * (len(one) + 1 + len(between))
        types += [second] * (len(two) + 1)
        assert alone.ids == [ids.cls, *one, ids.sep]
    assert row.type_ids == types


@pytest.mark.long
def test_a_mask_takes_the_blank_before_it(trained):
    """As `data.text.masked` hides a place."""
    for kind in KINDS[:2]:
        tokenizer = trained(*kind)
        package = _package(tokenizer)
        package.encode_special_tokens = False
        masked = MaskedEncoder(tokenizer)
        for text in ("der <mask> Weg.", "<mask>", "<mask>er", "b<mask> <mask>"):
            found = package.encode(text, add_special_tokens=False).ids
            assert found == masked.encode(text.split("<mask>")), text


def test_texts_come_back(trained):
    tokenizer = trained("composed", False, "unigram")
    package = _package(tokenizer)
    line = "Der alte Leuchtturm weist"
    assert package.decode(package.encode(line).ids) == line


def test_a_kind_that_the_package_has_not(trained, tmp_path):
    content = trained("composed", False, "unigram").vocabulary.content
    proto = messages().ModelProto.FromString(content)
    proto.DiscardUnknownFields()  # settings and checksum of the file
    proto.trainer_spec.model_type = proto.trainer_spec.CHAR
    path = tmp_path / "spiece.model"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(UserError, match="type unigram or bpe"):
        hf_tokenizer.build(Tokenizer(str(path)), CLS_LAST)


@pytest.mark.long
def test_a_quirk_that_has_no_form_there_is_counted(golden):
    """`19,` is cut into an unknown `19` and a comma: the original's rule."""
    tokenizer = Tokenizer(str(golden / "text" / "spiece.model"))
    package = _package(tokenizer)
    assert tokenizer.encode(" 8,619, K") != package.encode(" 8,619, K").ids
    found = hf_folder.different(tokenizer, package, TEXTS)
    assert not found
    wrong = hf_folder.different(tokenizer, package, hf_folder.probes(tokenizer))
    assert 0 < len(wrong) < 200


def test_the_file_names_its_symbols(trained):
    tokenizer = trained("composed", False, "unigram")
    value = json.loads(hf_tokenizer.build(tokenizer, CLS_LAST))
    tokens = {t["content"]: t["id"] for t in value["added_tokens"]}
    assert tokens["<cls>"] == 3 and tokens["<mask>"] == 6
    assert "<eop>" not in tokens  # a piece that texts may hold
