"""Commands on models of the hub by name, against a server on loopback.

`tests.common.weights.test_hub` has what is fetched and what can go wrong.
"""

import json
import os

import numpy as np
import pytest

from serving.saved_model import SavedModel
from tests.helpers import commands, hub_server, released_folders

pytest.importorskip("huggingface_hub")
pytest.importorskip("tokenizers")

TEXTS = ["the river is red", "who is near the boat", "green tower"]
# What a sentence-transformers folder has beside the encoder.
SENTENCES = {
    "modules.json": [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
    ],
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
}


def contents(folder):
    """File name -> bytes, of a folder and those below it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Name -> the folder whose files a repository has."""
    place = tmp_path_factory.mktemp("released")
    encoder = released_folders.write("bert vocab", place)
    (encoder / "1_Pooling").mkdir()
    for name, value in SENTENCES.items():
        (encoder / name).write_text(json.dumps(value))
    classifier = released_folders.write_head(place / "c", "bert_sequence")
    return {"org/encoder": encoder, "org/classifier": classifier}


@pytest.fixture(scope="module")
def hub(folders):
    with hub_server.running() as found:
        for name, folder in folders.items():
            found.repositories[name] = contents(folder)
        # A released name goes without the scheme.
        bare = "google-bert/bert-base-uncased"
        found.repositories[bare] = found.repositories["org/encoder"]
        yield found


@pytest.fixture
def ask(hub, tmp_path):
    """Runs a command whose hub is the server; its cache is the test's."""

    def run(*arguments, **environment):
        hub.requests.clear()
        return commands.run(
            *arguments,
            env=os.environ
            | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache")}
            | {"HF_TOKEN": "", "HF_HUB_OFFLINE": "0"}
            | environment,
        )

    return run


def good(done):
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done


def vector(done):
    return json.loads(good(done).stdout.splitlines()[-1])["vector"]


@pytest.mark.long
def test_vectors_of_a_name_are_those_of_its_folder(ask, hub, folders):
    embed = ("-m", "serving.embed", "--text=the boat", "--checkpoint={}")

    def asked(checkpoint, **environment):
        return ask(*(x.format(checkpoint) for x in embed), **environment)

    done = asked("hf://org/encoder@v1")
    wanted = vector(asked(folders["org/encoder"]))
    assert not hub.requests
    assert vector(done) == wanted and np.std(wanted) > 0.01
    whose = f"hf://org/encoder@{hub.commit}"
    assert f"--checkpoint=hf://org/encoder@v1: {whose}" in done.stderr
    assert f"weights      {whose}" in done.stdout + done.stderr
    assert vector(asked("bert-base-uncased")) == wanted
    # Offline the cache has it all, and no more than that.
    offline = {"HF_HUB_OFFLINE": "1"}
    assert vector(asked("hf://org/encoder@v1", **offline)) == wanted
    refused = asked("hf://org/classifier", **offline)
    assert refused.returncode == 1 and not hub.requests
    last = refused.stderr.splitlines()[-1]
    assert last.startswith("error: hf://org/classifier@main: HF_HUB_OFFLINE")


@pytest.mark.slow
def test_a_name_is_evaluated_and_exported_as_its_folder(
    ask, hub, folders, tmp_path
):
    labelled = zip(TEXTS, ("bad", "fair", "good"), strict=True)
    rows = "".join(f"{text}\t{label}\n" for text, label in labelled)
    (tmp_path / "dev.tsv").write_text("text\tlabel\n" + rows)
    found, answers = {}, {}
    for place, name in (
        ("hub", "hf://org/classifier"),
        ("local", folders["org/classifier"]),
    ):
        home, export = tmp_path / place, tmp_path / f"{place}_export"
        done = ask(
            "run_classifier.py",
            "--task_name=tsv",
            f"--data_dir={tmp_path}",
            f"--init_checkpoint={name}",
            f"--model_dir={home}",
            "--do_eval",
            "--progress=none",
        )
        good(done)
        found[place] = json.loads((home / "eval_dev.json").read_text())
        good(
            ask(
                *("-m", "serving.export", f"--model_dir={name}"),
                f"--output_dir={export}",
            )
        )
        answers[place] = SavedModel(str(export))({"text": TEXTS})
        about = SavedModel(str(export)).description["weights"]
        origin = f"hf://org/classifier@{hub.commit}"
        assert about.get("origin", "") == (origin if place == "hub" else "")
    for metric in ("accuracy", "loss"):
        assert found["hub"][metric] == found["local"][metric]
    np.testing.assert_array_equal(
        answers["hub"]["probabilities"], answers["local"]["probabilities"]
    )
    assert np.std(answers["hub"]["probabilities"]) > 0.01


def test_an_export_of_a_name_needs_a_place(ask):
    done = ask("-m", "serving.export", "--model_dir=hf://org/classifier")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "--output_dir is needed" in done.stderr.splitlines()[-1]


@pytest.mark.long
def test_names_are_filled_and_converted_as_their_folders(
    ask, hub, folders, tmp_path
):
    filled, weights = [], []
    for place, name in (
        ("hub", "hf://org/encoder@" + hub.commit),
        ("local", folders["org/encoder"]),
    ):
        fill = ("-m", "serving.fill_mask", "--text=the <mask> boat")
        done = good(ask(*fill, f"--checkpoint={name}"))
        filled.append(json.loads(done.stdout.splitlines()[0]))
        new = tmp_path / place
        good(
            ask(
                *("-m", "modeling.convert_checkpoint", "--from_format=hf"),
                *(f"--input={name}", "--to_format=hf", f"--output={new}"),
            )
        )
        weights.append((new / "model.safetensors").read_bytes())
        pieces = (new / "vocab.txt").read_bytes()
        assert pieces == (folders["org/encoder"] / "vocab.txt").read_bytes()
    assert filled[0] == filled[1] and weights[0] == weights[1]
