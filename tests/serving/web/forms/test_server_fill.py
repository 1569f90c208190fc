"""What the page's form for hidden places is answered, by its own route."""

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("fastapi")
testclient = pytest.importorskip("fastapi.testclient")

from common.contract.symbols import MASK  # noqa: E402
from common.contract.task_spec import TaskSpec  # noqa: E402
from data import train_sentencepiece  # noqa: E402
from data.corpus.options import SentencePieceOptions  # noqa: E402
from data.text.graph.graph_tokenizer import GraphTokenizer  # noqa: E402
from data.text.tokenizer import WORD_MARK, Tokenizer  # noqa: E402
from modeling import PretrainingModel, XLNetConfig  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.signatures.language_model import lm_signatures  # noqa: E402
from serving.signatures.sequence import Context  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from tests.helpers import languages  # noqa: E402

TEXT = {"text": {"dtype": "string", "shape": [None]}}


class Model:
    """A language model as an export has it, without its files."""

    version = "1"
    variable_shapes: dict = {}
    signature_defs: dict = {}
    description = {
        "head": "pretraining",
        "labels": [],
        "model_type": "xlnet",
        "max_seq_length": 64,
        "signatures": {
            "serving_default": {"inputs": TEXT, "outputs": {}},
            "fill_mask": {"inputs": TEXT, "outputs": {}},
        },
    }

    def __init__(self, tokenizer):
        self.read = []  # ids of the texts that were asked
        model = PretrainingModel(
            XLNetConfig(
                vocab_size=tokenizer.vocab_size,
                d_model=8,
                n_layer=1,
                n_head=2,
                d_head=4,
                d_inner=8,
                init_std=0.5,
            )
        )

        class Network:
            config = model.config
            lm_logits = model.lm_logits

            def __call__(network, ids, **inputs):
                self.read.append(ids.numpy())
                return model(ids, **inputs)

        graph = GraphTokenizer(tokenizer.vocabulary.content, tokenizer.settings)
        spec = TaskSpec("lm", "pretraining", (), 64, tokenizer.settings, "")
        context = Context(Network(), spec, graph, tokenizer.symbols)
        self._fill = lm_signatures(context)["fill_mask"].function

    def __call__(self, inputs, signature, stop=None):
        assert signature == "fill_mask"
        found = self._fill(text=tf.constant(inputs["text"]))
        return {name: value.numpy() for name, value in found.items()}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fill")
    corpus = languages.write_corpus(folder / "text.txt")
    options = SentencePieceOptions(
        corpus, str(folder / "spiece"), vocab_size=600
    )
    train_sentencepiece.train(options, lambda _: None)
    return Tokenizer(str(folder / "spiece.model"))


# Text with a hidden place, and its pieces: those of training, which never cuts
# a text there.
CASES = {
    "ja": "古い<mask>台のそばで",
    "zh": "港口的<mask>塔建于一百年前",
    "th": "ประภาคาร<mask>ยังคง",
    "de": "Der alte <mask> weist den Schiffen.",
    "ru": "Старый <mask>, ещё",
}


@pytest.mark.long
@pytest.mark.parametrize("language", CASES)
def test_the_pages_form_reads_the_text_with_the_mask_in_its_place(
    tokenizer, language
):
    """`この<mask>は` has no word mark behind the mask: the text has none."""
    model, text = Model(tokenizer), CASES[language]
    body = {"signature_name": "fill_mask", "instances": [{"text": text}]}
    with testclient.TestClient(build_app(model, ServerOptions())) as client:
        answer = client.post("/answer", json=body)
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["answers"]
    (read,) = (ids[0].tolist() for ids in model.read)
    left, right = text.split(MASK)
    mask = read.index(tokenizer.symbols.mask)
    pieces = [tokenizer.id_to_piece(i) for i in read]
    assert "".join(pieces[:mask]) == WORD_MARK + left.rstrip().replace(
        " ", WORD_MARK
    )
    assert "".join(pieces[mask + 1 :]) == right.replace(" ", WORD_MARK)
    assert row["num_masks"] == 1
    first = row["pieces"][0][0]
    whole = "".join([*pieces[:mask], first, *pieces[mask + 1 :]])
    assert row["filled"] == whole.replace(WORD_MARK, " ").strip()
    assert 0 < np.sum(row["probabilities"][0]) <= 1 + 1e-5
