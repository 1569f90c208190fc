"""`tokenizer.json` of released weights, made here: WordPiece and BPE."""

import importlib
import json
import pathlib
import shutil

import numpy as np
import pytest

from common.errors import UserError
from common.vocabularies import vocabulary
from data.finetuning.options import FeatureOptions
from data.text import opening
from data.text.released.released_tokenizer import ReleasedTokenizer
from tests.helpers import released_folders
from tests.helpers.runs import classifier as classifier

TEXTS = ["The river was wide.", "A boat, a river; the boats!", "wide boats"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Kind -> path of a tokenizer.json."""
    package = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("tokenizers")
    parts = package.pre_tokenizers
    wordpiece = package.Tokenizer(package.models.WordPiece(unk_token="[UNK]"))
    wordpiece.normalizer = package.normalizers.BertNormalizer(lowercase=True)
    wordpiece.pre_tokenizer = parts.BertPreTokenizer()
    trainers = package.trainers
    wordpiece.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=50, special_tokens=SPECIAL)
    )
    # Released files cut and pad by themselves: ours must not.
    wordpiece.enable_truncation(3)
    wordpiece.enable_padding(length=9)
    bpe = package.Tokenizer(package.models.BPE(unk_token="[UNK]"))
    bpe.pre_tokenizer = parts.ByteLevel(
        add_prefix_space=False, trim_offsets=False
    )
    bpe.train_from_iterator(
        TEXTS, trainers.BpeTrainer(vocab_size=50, special_tokens=SPECIAL)
    )
    found = {}
    for name, tokenizer in (("wordpiece", wordpiece), ("bpe", bpe)):
        (folder / name).mkdir()
        found[name] = str(folder / name / "tokenizer.json")
        tokenizer.save(found[name])
    return found


def test_wordpiece_lower_cases_and_keeps_the_places(made):
    tokenizer = opening.open_tokenizer(made["wordpiece"])
    assert isinstance(tokenizer, ReleasedTokenizer)
    assert tokenizer.symbols.cls == 2 and tokenizer.symbols.unk == 1
    assert tokenizer.symbols.eod == -1 and tokenizer.vocab_size <= 59
    text = "The  RIVER 猫 was wide."
    ids, starts, ends = tokenizer.encode_spans(text)
    assert ids.tolist() == tokenizer.encode(text)
    assert len(ids) > 3  # neither cut nor padded nor framed
    np.testing.assert_array_equal(tokenizer.encode_batch([text, "a"])[0], ids)
    assert not {0, 2, 3} & set(ids.tolist())
    spans = [text[a:b] for a, b in zip(starts, ends, strict=True)]
    assert "".join(spans) == text.replace(" ", "")
    assert spans[ids.tolist().index(1)] == "猫"


@pytest.mark.parametrize("kind", ["xlnet json", "bert json", "modernbert bpe"])
def test_a_file_without_a_decoder_gives_text(tmp_path, kind):
    """Classes of transformers bring one; without it marks were shown."""
    tokenizer = released_folders.tokenizer(kind, tmp_path)
    ids = tokenizer.encode("the river boats")
    wanted = tokenizer.decode(ids)
    path = tmp_path / "tokenizer.json"
    value = json.loads(tokenizer.vocabulary.content)
    value["decoder"] = None
    path.write_text(json.dumps(value))
    bare = opening.open_tokenizer(str(path))
    assert bare.encode("the river boats") == ids
    assert bare.decode(ids) == wanted == "the river boats"


def _template(*parts):
    """The rule that puts symbols around a text, "A" = the text."""
    single = [
        {"Sequence": {"id": "A", "type_id": 0}}
        if part == "A"
        else {"SpecialToken": {"id": part, "type_id": 0}}
        for part in parts
    ]
    symbols = {
        part: {"id": part, "ids": [0], "tokens": [part]}
        for part in parts
        if part != "A"
    }
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": symbols,
    }


_BYTES = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
_ROBERTA = {
    "type": "RobertaProcessing",
    "cls": ["<s>", 50],
    "sep": ["</s>", 51],
    "trim_offsets": True,
    "add_prefix_space": False,
}
_USUAL = ("[CLS]", "[SEP]")


@pytest.mark.parametrize(
    "rule, wanted",
    [
        (None, _USUAL),
        (_BYTES, _USUAL),
        (_template("A", "</s>"), _USUAL),
        (_template("A"), _USUAL),
        (_template("<s>", "A", "</s>"), ("<s>", "</s>")),
        (_template("A", "</s>", "<s>"), ("<s>", "</s>")),
        (_ROBERTA, ("<s>", "</s>")),
        (
            {
                "type": "Sequence",
                "processors": [_BYTES, _template("<s>", "A", "</s>")],
            },
            ("<s>", "</s>"),
        ),
    ],
)
def test_cls_and_sep_are_those_of_the_files_rows(made, tmp_path, rule, wanted):
    """A file may hold `[CLS]` and put other symbols around a text."""
    value = json.loads(pathlib.Path(made["bpe"]).read_text(encoding="utf-8"))
    size = len(value["model"]["vocab"])
    value["added_tokens"] += [
        value["added_tokens"][0] | {"id": size + i, "content": text}
        for i, text in enumerate(("<s>", "</s>"))
    ]
    value["post_processor"] = rule
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    tokenizer = ReleasedTokenizer(str(path))
    found = tokenizer.symbols.cls, tokenizer.symbols.sep
    assert tuple(map(tokenizer.id_to_piece, found)) == wanted


@pytest.mark.parametrize(
    "name, declared",
    [
        ("tokenizer_config.json", {"mask_token": "<mask>"}),
        ("special_tokens_map.json", {"mask_token": {"content": "<mask>"}}),
        ("tokenizer_config.json", {"pad_token": "<|pad|>"}),
        # What the file does not hold is added, as in transformers.
        ("tokenizer_config.json", {"mask_token": "<none>"}),
    ],
)
def test_symbols_are_those_that_the_folder_declares(
    made, tmp_path, name, declared
):
    """`[MASK]` counted, and a folder without `[PAD]` and `<pad>` was refused."""
    content = pathlib.Path(made["bpe"]).read_text(encoding="utf-8")
    value = json.loads(content)
    size = len(value["model"]["vocab"])
    ((key, token),) = declared.items()
    token = token["content"] if isinstance(token, dict) else token
    if token == "<mask>":
        row = value["added_tokens"][0] | {"id": size, "content": token}
        value["added_tokens"].append(row)
    if token == "<|pad|>":
        value = json.loads(content.replace("[PAD]", token))
    folder = tmp_path / "released"
    folder.mkdir()
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    (folder / name).write_text(json.dumps(declared))
    tokenizer = ReleasedTokenizer(str(path))
    found = getattr(tokenizer.symbols, key.removesuffix("_token"))
    assert tokenizer.id_to_piece(found) == token
    assert token != "<none>" or found == tokenizer.vocab_size - 1
    # So does the copy in a model's folder.
    copied = vocabulary.copy(
        tokenizer.vocabulary, tokenizer.settings, str(tmp_path)
    )
    again = ReleasedTokenizer(copied)
    assert (again.symbols, again.sha256) == (
        tokenizer.symbols,
        tokenizer.sha256,
    )
    assert (tmp_path / "tokenizer_config.json").exists()


def test_spans_of_bytes_leave_blanks_out(made):
    tokenizer = opening.open_tokenizer(made["bpe"])
    text = "the boats"
    _, starts, ends = tokenizer.encode_spans(text)
    spans = [text[a:b] for a, b in zip(starts, ends, strict=True)]
    assert "".join(spans) == "theboats"
    assert all(s == s.strip() for s in spans)


def test_files_that_are_no_tokenizer_are_one_line(made, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    for content in ("{", "[1]", "{}"):
        path.write_text(content)
        with pytest.raises(UserError, match="wanted a tokenizer.json") as e:
            ReleasedTokenizer(str(path))
        assert "\n" not in str(e.value)
    with open(made["wordpiece"], encoding="utf-8") as f:
        value = json.load(f)
    value["added_tokens"] = []
    value["model"]["vocab"] = {"[UNK]": 0, "a": 1}
    path.write_text(json.dumps(value))
    with pytest.raises(
        UserError, match=r"symbol \[CLS\] or <cls> or <s> or <bos> is missing"
    ):
        ReleasedTokenizer(str(path))


def _hostile(value, how):
    """Makes a tokenizer hostile; the words of the message."""
    model = value["model"]
    if how == "ids that no list holds":
        model["vocab"]["z"] = 4_000_000_000
        return "wanted ids below 1048576"
    if how == "a table of characters of 4 GB":
        rule = {"type": "Precompiled", "precompiled_charsmap": "/////wAA"}
        value["normalizer"] = {"type": "Sequence", "normalizers": [rule]}
        return "table of characters is cut off"
    if how == "replacements of replacements":
        rule = {"type": "Replace", "pattern": {"String": "a"}}
        rules = [rule | {"content": "a" * 40}] * 2
        value["normalizer"] = {"type": "Sequence", "normalizers": rules}
        return "1.6e\\+03 characters of one, at most 1000"
    if how == "an unknown piece that is none":
        model["unk_token"] = "nothing"
        return "cannot cut a text: .*Missing"
    rule = {"type": "Replace", "pattern": {"Regex": "(a+)+$|(a|aa)+b"}}
    value["normalizer"] = rule | {"content": "x"}
    return "cannot cut a text: .*retry-limit"


@pytest.mark.parametrize(
    "how",
    [
        "ids that no list holds",
        "a table of characters of 4 GB",
        "replacements of replacements",
        "an unknown piece that is none",
        "an expression that backtracks for ever",
    ],
)
def test_hostile_files_are_one_line(made, tmp_path, how):
    path = tmp_path / "tokenizer.json"
    value = json.loads(pathlib.Path(made["wordpiece"]).read_text())
    message = _hostile(value, how)
    path.write_text(json.dumps(value))
    with pytest.raises(UserError, match=message):
        tokenizer = opening.open_tokenizer(str(path))
        tokenizer.encode("\u6f22 z" + 60 * "a" + "!")
        opening.check_graph(tokenizer)


@pytest.mark.parametrize("rows", [{"x": {"content": "a"}}, {"1": 3}, {"1": {}}])
def test_hostile_vocabularies_are_one_line(tmp_path, monkeypatch, rows):
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps({"a": 0, "aa": 1}))
    merges = tmp_path / "merges.txt"
    merges.write_text("a " * 100_000)
    with pytest.raises(UserError, match="merges.txt:1: wanted two") as caught:
        vocabulary.read(str(path))
    assert len(str(caught.value)) < 400
    merges.write_text("a a\n" * 1000)
    made = json.loads(vocabulary.read(str(path)).content)
    assert made["model"]["merges"] == [["a", "a"]]
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"added_tokens_decoder": rows}))
    with pytest.raises(UserError, match="added_tokens_decoder: wanted ids"):
        vocabulary.read(str(path))
    monkeypatch.setattr(vocabulary, "MAX_BYTES", 8)
    with pytest.raises(UserError, match="vocabulary of at most 0 MiB"):
        vocabulary.read(str(path))


def test_without_the_package_the_line_says_what_to_install(
    tmp_path, monkeypatch
):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match="pip install -r requirements-token"):
        ReleasedTokenizer(str(path))


@pytest.mark.slow
def test_a_released_folder_is_tuned_with_its_own_tokenizer(
    made, golden, tmp_path
):
    from serving.export import export_model
    from training.finetuning import sources
    from training.finetuning.driver import Driver
    from training.finetuning.options import FinetuneOptions

    folder = tmp_path / "released"
    shutil.copytree(golden / "encoders" / "bert", folder)
    shutil.copy(made["wordpiece"], folder)
    classifier.write_task(tmp_path)
    options = classifier.make_options(
        tmp_path,
        steps=2,
        do_train=True,
        do_eval=True,
        do_predict=True,
        run={"init_checkpoint": str(folder)},
    )
    options = FinetuneOptions(
        run=options.run,
        do_train=True,
        do_eval=True,
        do_predict=True,
        summary_type=None,
        pack=True,
    )
    options, layout = sources.settle(options)
    spiece = sources.find_spiece(options, "")
    assert spiece == str(folder / "tokenizer.json")
    said: list[str] = []
    sources.find_text(options, spiece, None, said.append)
    assert "its own rules" in said[0]
    features = FeatureOptions(spiece, 16, layout=layout)
    job = classifier.make_job(tmp_path, spiece, options, features)
    config = sources.find_config(options, job.tokenizer.vocab_size, spiece)
    assert 30 < job.tokenizer.vocab_size <= config.vocab_size == 59
    results = Driver(job, options, say=said.append).run()
    assert 0 <= results["dev"]["accuracy"] <= 1
    model = tmp_path / "model"
    assert (model / "tokenizer.json").exists()
    # Without flags it is found again; other tokenizers are refused.
    again = FinetuneOptions(run=options.run, do_eval=True)
    own = sources.find_spiece(again, "")
    assert own == str(model / "tokenizer.json")
    sources.find_text(again, own, None, said.append)
    export = FinetuneOptions(
        run=options.run, do_export=True, summary_type="first"
    )
    job = classifier.make_job(tmp_path, own, export, features)
    Driver(job, export, say=said.append, export=export_model).run()
    assert (model / "export" / "1" / "assets" / "tokenizer.json").exists()
    rules = json.loads(pathlib.Path(made["bpe"]).read_text())
    rules["pre_tokenizer"] = {"type": "Whitespace"}
    other = tmp_path / "tokenizer.json"
    other.write_text(json.dumps(rules))
    with pytest.raises(UserError, match="wanted the pre_tokenizer ByteLevel"):
        classifier.make_job(
            tmp_path,
            str(other),
            export,
            FeatureOptions(str(other), 16, layout=layout),
        )
