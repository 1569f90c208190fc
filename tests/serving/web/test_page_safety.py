"""What a stranger's export or link writes does not run in the page."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import urllib.parse

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
testclient = pytest.importorskip("fastapi.testclient")

from common.errors import UserError  # noqa: E402
from serving.options import ServerOptions  # noqa: E402
from serving.web import page as page_lib  # noqa: E402
from serving.web.app import build_app  # noqa: E402
from tests.serving.web.page_server import serving  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
# Each marks the document where it runs.
RUN = "document.documentElement.dataset.ran=1"
PLANTED = (
    f"</title><script>{RUN}</script>",
    f"</h1><img src=x onerror={RUN}>",
    f"</script><svg\tonload={RUN}>",
)
NAMES = [f"<svg\tonload={RUN}>", PLANTED[0], "a b", "a\x1b[31m", "", "x" * 101]


class Model:
    """Every text of it is a stranger's."""

    version = "3"
    variable_shapes: dict = {}
    signature_defs: dict = {}

    def __init__(self, **members):
        self.description = {
            "head": "classification",
            "task": PLANTED[1],
            "labels": list(PLANTED[1:]),
            "model_type": "xlnet",
            "signatures": {
                "serving_default": {
                    "inputs": {
                        PLANTED[0]: {"dtype": "string", "shape": [None]},
                        "text": {"dtype": "string", "shape": [None]},
                    },
                    "outputs": {},
                }
            },
        } | members

    def __call__(self, inputs, signature, stop=None):
        count = len(inputs["text"])
        return {
            "probabilities": np.asarray([[0.25, 0.75]] * count, np.float32),
            "label": np.asarray([PLANTED[1].encode()] * count, object),
        }


def page_of(model):
    with testclient.TestClient(build_app(model, ServerOptions())) as client:
        return client.get("/")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_name_is_refused(name):
    with pytest.raises(UserError, match=r"signature\.json: model_type") as e:
        build_app(Model(model_type=name), ServerOptions())
    assert "--model_name" in str(e.value)
    assert "\x1b" not in str(e.value) and len(str(e.value)) < 250
    build_app(Model(model_type=name), ServerOptions(model_name="ours"))
    if name:
        with pytest.raises(UserError, match="^--model_name"):
            ServerOptions(model_name=name)


def test_the_page_is_the_same_for_every_model():
    """No text of a file stands in it."""
    one = page_of(Model(model_type="bert"))
    other = page_of(Model(model_type="xlnet", labels=[], head="span"))
    assert one.content == other.content
    assert b"bert" not in one.content


def test_only_the_page_itself_runs_in_it():
    page = page_of(Model())
    policy = dict(
        part.strip().split(" ", 1)
        for part in page.headers["content-security-policy"].split(";")
    )
    for kind in ("script", "style"):
        texts = re.findall(rf"<{kind}>(.*?)</{kind}>", page.text, re.S)
        assert len(texts) == 1 and f"<{kind} " not in page.text
        digest = hashlib.sha256(texts[0].encode()).digest()
        found = base64.b64encode(digest).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{found}'"
    assert not re.search(r"<[^>]+\son\w+=|\sstyle=|javascript:", page.text)
    wanted = {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert policy == wanted | {
        k: policy[k] for k in ("script-src", "style-src")
    }
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"


def look(address: str, fields: dict, folder, *extra: str) -> tuple[str, str]:
    """(what Chromium prints of the page, what it logs)."""
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={folder}",
        "--virtual-time-budget=20000",
        "--window-size=900,1000",
    ]
    query = urllib.parse.urlencode(fields)
    done = subprocess.run(
        [*command, *extra, f"{address}/?{query}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.slow
@browser
def test_planted_texts_are_shown_and_do_not_run(tmp_path):
    fields = {"text": PLANTED[2], PLANTED[0]: PLANTED[0], "run": 1}
    with serving(build_app(Model(), ServerOptions())) as address:
        page, log = look(f"http://{address}", fields, tmp_path, "--dump-dom")
        picture = tmp_path / "page.png"
        look(
            f"http://{address}",
            fields,
            tmp_path,
            f"--screenshot={os.environ.get('PAGE_PICTURE', picture)}",
        )
    assert not re.search(r"<html[^>]*data-ran", page)
    assert "Content Security Policy" not in log, log
    assert "<title>xlnet</title>" in page and "<h1" in page
    labels = re.findall(r'<div class="bar[^>]*><span>(.*?)</span>', page)
    assert labels == [
        text.replace("<", "&lt;").replace(">", "&gt;")
        for text in PLANTED[:0:-1]
    ]
    assert 'class="error"' not in page


@pytest.mark.slow
@browser
def test_a_script_in_the_page_would_not_run(tmp_path):
    """The second bar, were a text ever to stand there unescaped."""
    app = build_app(Model(), ServerOptions())
    planted = "".join(PLANTED)

    async def unescaped(scope, receive, send):
        async def change(message):
            if message["type"] == "http.response.body" and scope["path"] == "/":
                message["body"] = message["body"].replace(
                    b"<h1", f"{planted}<h1".encode()
                )
            if message["type"] == "http.response.start":
                headers = [
                    h for h in message["headers"] if b"length" not in h[0]
                ]
                message["headers"] = headers
            await send(message)

        await app(scope, receive, change)

    with serving(unescaped) as address:
        shown, log = look(
            f"http://{address}", {"text": "a"}, tmp_path, "--dump-dom"
        )
    assert "<svg" in shown and not re.search(r"<html[^>]*data-ran", shown)
    assert log.count("Content Security Policy") >= 3
    assert "classes" in shown  # the page's own script has run


KEY = "k" * 40
# What a person does: another key, then the right one, then the button.
TYPING = """
async function typing() {
  const data = document.documentElement.dataset;
  const until = async (done) => {
    while (!done()) await new Promise((go) => setTimeout(go, 20));
  };
  const box = document.getElementById("key");
  const field = document.getElementById("api-key");
  const line = document.getElementById("about");
  await until(() => !box.hidden);
  data.asked = line.textContent;
  field.value = "x".repeat(40);
  box.requestSubmit();
  await until(() => line.textContent !== data.asked);
  data.wrong = line.textContent;
  field.value = " " + "KEY" + "\\n";
  box.requestSubmit();
  await until(() => box.hidden);
  data.kept = [field.value, localStorage.length, sessionStorage.length,
    document.cookie, location.href.includes("KEY")].join();
}
typing();
"""


@pytest.mark.slow
@browser
def test_the_page_asks_for_a_key_and_forgets_it(tmp_path, monkeypatch):
    typing = TYPING.replace("KEY", KEY) + "</script>"
    typed = page_lib.load().replace("</script>", typing)
    monkeypatch.setattr(page_lib, "load", lambda: typed)
    keys = tmp_path / "keys.txt"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    keys.write_text(f"ada sha256:{digest}")
    fields = {"text": "a", PLANTED[0]: "b", "run": 1}
    app = build_app(Model(), ServerOptions(api_keys_file=str(keys)))
    with serving(app) as address:
        url = f"http://{address}"
        page, log = look(url, fields, tmp_path / "user", "--dump-dom")
        picture = os.environ.get("KEY_PICTURE", str(tmp_path / "key.png"))
        monkeypatch.undo()
        look(url, {}, tmp_path / "user", f"--screenshot={picture}")
    assert "Content Security Policy" not in log, log
    found = dict(
        re.findall(r'data-(\w+)="([^"]*)"', page.partition("<head")[0])
    )
    assert found == {
        "asked": "This server asks for an API key.",
        "wrong": "this API key is not known here",
        "kept": ",0,0,,false",
    }
    assert '<form id="key" hidden' in page
    assert page.count('<div class="bar') == 2 and 'class="error"' not in page
    assert KEY not in page.partition("<script")[0]
