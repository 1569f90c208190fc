"""The page in a headless Chromium, against a real server and export."""

import contextlib
import importlib.resources
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

from serving.exported import rows
from tests.helpers import commands

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

NODE = shutil.which("node")
# As much of a browser as the functions that show answers need.
_DOCUMENT = """
const node = () => ({
  style: {}, children: [], append(...x) { this.children.push(...x); },
  setAttribute() {}, addEventListener() {},
  get text() { return this.children.map((x) => x.text ?? x).join(" "); },
});
globalThis.location = {search: ""};
globalThis.document = {createElement: node, getElementById: node};
globalThis.fetch = () => Promise.reject();
"""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PARAGRAPH = (
    "The ticket cost 12,000 francs. The na\u00efve caf\u00e9 owner paid."
)


@pytest.fixture(scope="module")
def address(spiece_model, tmp_path_factory):
    """A server of a small span model; ends with the module."""
    from common.contract.task_spec import TaskSpec
    from common.vocabularies.text_settings import TextSettings
    from modeling import SpanModel, XLNetConfig
    from serving.export import export_model

    config = XLNetConfig(
        vocab_size=1000, d_model=16, n_layer=1, n_head=2, d_head=8, d_inner=16
    )
    folder = str(tmp_path_factory.mktemp("page"))
    spec = TaskSpec(
        "squad",
        "span",
        (),
        48,
        TextSettings(),
        "",
        data_options={"max_query_length": 16},
    )
    export_model(folder, SpanModel(config), spec, spiece_model, check=False)
    with served(folder) as found:
        yield found


@contextlib.contextmanager
def served(folder, name="xlnet"):
    """The address of a server of an export; it ends with the block."""
    command = [commands.python(), "-m", "serving.serve", "--port=0"]
    server = subprocess.Popen(
        [*command, f"--saved_model_dir={folder}"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in server.stderr:
            found = re.search(
                rf"serving {name} at (http://127\.0\.0\.1:\d+)", line
            )
            if found:
                break
        assert found, "the server did not start"
        yield found.group(1)
    finally:
        server.terminate()
        server.wait(30)
        server.stderr.close()


@pytest.mark.slow
@pytest.mark.shared
def test_the_server_answers_and_survives(address):
    def post(body: bytes):
        return ask(f"{address}/answer", body)

    row = {"question": "What did it cost?", "paragraph": PARAGRAPH}
    status, answer = post(json.dumps({"instances": [row]}).encode())
    found = answer["answers"][0]
    assert status == 200
    span = slice(found["answer_start"], found["answer_end"])
    assert PARAGRAPH[span] == found["answer"]
    long = row | {"paragraph": "x" * 100_000}
    assert post(json.dumps({"instances": [long]}).encode())[0] == 400
    assert post(b"x" * 900_000)[0] == 400
    assert post(json.dumps({"instances": [row]}).encode())[0] == 200


def ask(url: str, body: bytes):
    """(status, JSON) of a POST."""
    request = urllib.request.Request(url, body)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.loads(e.read())


def test_the_page_speaks_plainly():
    """Words that only the code knows are not shown to readers."""
    page = importlib.resources.files("serving.web").joinpath("page.html")
    shown = re.findall(r'"([^"\n]*)"', page.read_text(encoding="utf-8"))
    for word in ("null odds", "logit", "window(s)", "joint prob"):
        assert not [text for text in shown if word in text], word


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize(
    "labels, shares, wanted",
    [
        ("ABCD", [0.125, 0.5, 0.25, 0.125], "two  50.0 % three  25.0 % one"),
        ("ABCD", [0.25, 0.75], "two  75.0 % one  25.0 %"),
    ],
)
def test_the_page_shows_the_share_of_each_option(labels, shares, wanted):
    """RACE's four options have names in the answer: they had `NaN %`."""
    outputs = {"probabilities": np.array([shares], np.float32)}
    row = rows.format_row({"labels": list(labels)}, outputs, 0)
    options = ["one", "two", "three", "four"][: len(shares)]
    page = importlib.resources.files("serving.web").joinpath("page.html")
    text = page.read_text(encoding="utf-8")
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    show = f"showChoice(out, {json.dumps(row)}, {{options: {options}}});"
    lines = ("const out = make('div');", show, "console.log(out.text);")
    done = subprocess.run(
        [NODE, "-e", "\n".join((_DOCUMENT, script, *lines))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(wanted)


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_the_page_marks_the_answer(address, tmp_path):
    query = {"question": "Who paid?", "paragraph": PARAGRAPH}
    page = look(address, query, tmp_path, "--dump-dom")
    assert "Ask about a paragraph" in page
    marked = re.search(r"<mark[^>]*>([^<]+)</mark>", page)
    assert marked and marked.group(1) in PARAGRAPH
    assert 'class="error"' not in page
    assert "null odds" not in page
    stated = re.search(r'<p class="answer">Answer: ([^<]+)</p>', page)
    assert stated and stated.group(1) == marked.group(1)
    assert re.search(r'<nav id="tabs"[^>]* hidden', page)  # one form
    picture = tmp_path / "page.png"
    look(address, query, tmp_path, f"--screenshot={picture}")
    assert os.path.getsize(picture) > 10_000


def look(address: str, fields: dict, folder, *extra: str) -> str:
    """What Chromium prints of the page with the form filled and run."""
    query = urllib.parse.urlencode(fields | {"run": "1"})
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",  # of what the page's policy refuses, too
        f"--user-data-dir={folder}",
        "--virtual-time-budget=20000",
        "--window-size=900,900",
    ]
    done = subprocess.run(
        [*command, *extra, f"{address}/?{query}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Content Security Policy" not in done.stderr
    return done.stdout


def shown_forms(page: str) -> dict[str, bool]:
    """Form -> whether it is shown; its tab says the same."""
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    sections = re.findall(r'<section data-key="(\w+)"( hidden)?', page)
    shown = {key: not hidden for key, hidden in sections}
    tabs = re.findall(r'data-key="(\w+)" aria-selected="(\w+)"', page)
    assert {key: chosen == "true" for key, chosen in tabs} == shown
    return shown


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize("ranker", ["cross_encoder", "knrm"])
def test_the_page_ranks_documents(spiece_model, tmp_path, ranker):
    """K-NRM takes the score of each document as a number."""
    from common.contract.task_spec import TaskSpec
    from common.vocabularies.text_settings import TextSettings
    from modeling import ClassificationModel, XLNetConfig
    from modeling.heads.kernel_ranking import KernelRankingModel
    from serving.export import export_model

    config = XLNetConfig(
        vocab_size=1000, d_model=16, n_layer=1, n_head=2, d_head=8, d_inner=16
    )
    options = {"max_query_length": 8, "passage_stride": 0, "max_passages": 1}
    spec = TaskSpec(
        "ranking", "ranking", (), 48, TextSettings(), "", data_options=options
    )
    model = ClassificationModel(config, num_labels=1, regression=True)
    if ranker == "knrm":
        options |= {"ranker": "knrm", "max_doc_length": 32}
        model = KernelRankingModel(config, (0.1, 0.9), (0.1, 0.2), 0, True)
    folder = str(tmp_path / "export")
    export_model(folder, model, spec, spiece_model, check=False)
    fields = {"query": "Who paid?", "documents": "Nobody <b> did.\nShe paid."}
    if ranker == "knrm":
        fields["candidate_scores"] = "1.5\n-2"
    with served(folder) as address:
        page = look(address, fields, tmp_path / "user", "--dump-dom")
    assert "Rank documents" in page
    assert "documents, one per line" in page
    assert re.findall(r"<mark[^>]*>([^<]+)</mark>", page) == ["paid"]
    assert re.search(r'class="best">1\. score -?\d', page)
    assert "2. score" in page
    assert "Nobody &lt;b&gt; did." in page


@pytest.fixture(scope="module")
def left_to_right(tmp_path_factory):
    """A server of a small Transformer-XL of characters."""
    from data.text.lm_vocabulary import SymbolVocabulary
    from modeling.encoders.transformer_xl.config import TransformerXLConfig
    from modeling.heads.causal_lm import CausalLanguageModel
    from serving.export.causal import export_causal
    from serving.generation.causal import CausalLM

    folder = tmp_path_factory.mktemp("left_to_right")
    symbols = ["\n", "<unk>", *" .abcdefghijklmnopqrstuvwxyz"]
    vocabulary = SymbolVocabulary("char", symbols, "newline")
    vocabulary.save(str(folder / "vocabulary.json"))
    config = TransformerXLConfig(
        vocab_size=len(symbols),
        d_model=16,
        n_layer=1,
        n_head=2,
        d_head=8,
        d_inner=16,
        mem_len=24,
        init_std=0.5,
    )
    model = CausalLanguageModel(config)
    lm = CausalLM(model, vocabulary, str(folder / "vocabulary.json"))
    export_causal(str(folder / "export"), lm, "transformer_xl", check=False)
    with served(folder / "export", "transformer_xl") as found:
        yield found, lm


@pytest.mark.slow
def test_a_left_to_right_export_is_served(left_to_right):
    """What the server scores and writes is what the model does."""
    import numpy as np

    from serving.generation.causal_decoder import CausalGenerator
    from serving.generation.causal_scoring import CausalScorer
    from serving.generation.options import SamplingOptions

    address, lm = left_to_right
    url = f"{address}/v1/models/transformer_xl:predict"
    texts = ["the cat sat.", "a dog"]
    status, answer = ask(url, json.dumps({"instances": texts}).encode())
    assert status == 200
    ids = [lm.prompt_ids(text) for text in texts]
    lines = [lm.vocabulary.encode_line(text)[0] for text in texts]
    wanted = CausalScorer(lm.model, 8).score(lines)
    for row, scores in zip(answer["predictions"], wanted, strict=True):
        assert row["log_prob"] == pytest.approx(scores.sum(), abs=1e-3)
    whole = {"max_new_tokens": 5, "temperature": 0.0, "top_k": 0, "seed": 0}
    body = {"signature_name": "generate_text", "inputs": {"text": texts}}
    body["inputs"] |= whole
    status, answer = ask(url, json.dumps(body).encode())
    assert status == 200
    options = SamplingOptions(max_new_tokens=5, temperature=0.0)
    generator = CausalGenerator(lm.model, np.zeros([0], np.int32))
    for i, prompt in enumerate(ids):
        tokens = generator.generate(prompt, options).tokens[0]
        assert answer["outputs"]["tokens"][i] == tokens.tolist()
        added = answer["outputs"]["continuation"][i]
        assert added == lm.vocabulary.decode(tokens)
    long = "x" * 20_000  # more than --max_tokens: read segment by segment
    body = {"signature_name": "generate_text"}
    body["instances"] = [{"text": long} | whole]
    status, answer = ask(url, json.dumps(body).encode())
    tokens = generator.generate(lm.prompt_ids(long), options).tokens[0]
    assert status == 200
    assert answer["predictions"][0]["tokens"] == tokens.tolist()
    status, answer = ask(url, json.dumps({"instances": [long]}).encode())
    assert status == 400 and "--max_tokens" in answer["error"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_the_page_goes_on_with_a_text(left_to_right, tmp_path):
    """One form runs per link: the one that it names."""
    address = left_to_right[0]
    fields = {"form": "continue", "text": "the <b> cat", "max_new_tokens": 7}
    page = look(address, fields, tmp_path / "a", "--dump-dom")
    added = re.findall(r'the &lt;b&gt; cat<span class="new">([^<]*)', page)
    assert len(added) == 1
    assert len(added[0].replace("&lt;unk&gt;", "?")) == 7
    assert shown_forms(page) == {"continue": True, "score": False}
    assert "perplexity" not in re.sub(r"<script>.*", "", page, flags=re.S)
    fields = {"form": "score", "text": "the cat\na dog"}
    page = look(address, fields, tmp_path / "b", "--dump-dom")
    rows = re.findall(r"<tr><th>([^<]+)</th><td>(\d+)</td>", page)
    # Characters and the end of the line.
    assert rows == [("the cat", "8"), ("a dog", "6")]
    assert shown_forms(page) == {"continue": False, "score": True}
    assert 'class="new"' not in re.sub(r"<script>.*", "", page, flags=re.S)
    assert 'class="error"' not in page


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_the_page_fills_a_place_within_a_word(tmp_path):
    """The form that the link names is run, and it alone is shown."""
    from common.contract.task_spec import TaskSpec
    from data.text.tokenizer import Tokenizer
    from modeling import PretrainingModel, XLNetConfig
    from serving.export import export_model
    from tests.helpers.runs import builds

    corpus = builds.write_corpus(tmp_path / "corpus.txt")
    vocabulary = builds.train_spiece(tmp_path, corpus)
    tokenizer = Tokenizer(vocabulary)
    config = XLNetConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=8,
        n_layer=1,
        n_head=2,
        d_head=4,
        d_inner=8,
    )
    spec = TaskSpec(
        "lm", "pretraining", (), 32, tokenizer.settings, tokenizer.sha256
    )
    folder = str(tmp_path / "export")
    export_model(
        folder, PretrainingModel(config), spec, vocabulary, check=False
    )
    fields = {"form": "fill", "text": "the tower<mask>s"}
    with served(folder) as address:
        page = look(address, fields, tmp_path / "user", "--dump-dom")
    (answer,) = re.findall(r'<p class="answer">([^<]*)', page)
    assert re.fullmatch(r"the tower( ?\S+)s", answer), answer
    assert shown_forms(page) == {
        "fill": True,
        "continue": False,
        "compare": False,
    }
    assert 'class="error"' not in page
