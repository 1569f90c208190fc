"""Names on the hub become paths, each by what its flag is for."""

import pytest
from absl import flags

from common.settings import CONFIG, FOLDER, VOCABULARY
from flags import flag_values
from flags.training import hub_flags

FLAGS = ("model", "spiece", "sizes", "plain")


@pytest.fixture
def values(monkeypatch):
    """Flags of every kind, and a hub that stands in."""
    found = flags.FlagValues()
    for name in FLAGS:
        flags.DEFINE_string(name, None, "A toy.", flag_values=found)
    kinds = {"model": FOLDER, "spiece": VOCABULARY, "sizes": CONFIG}
    monkeypatch.setattr(flag_values, "released", kinds | {"gone": FOLDER})
    monkeypatch.setattr(hub_flags, "FLAGS", found)

    def local(name, weights):
        assert weights == name.endswith("model")
        return "/cache/" + name.rsplit("/", 1)[1]

    monkeypatch.setattr(hub_flags.hub, "local", local)
    monkeypatch.setattr(
        hub_flags.vocabulary, "find_or_refuse", lambda path: path + "/v.txt"
    )
    return found


def test_a_name_becomes_what_its_flag_is_for(values, capsys):
    names = {name: f"hf://toys/{name}" for name in FLAGS}
    values(["x", *(f"--{k}={v}" for k, v in names.items())])
    hub_flags.make_local()
    assert values["model"].value == "/cache/model"
    assert values["spiece"].value == "/cache/spiece/v.txt"
    assert values["sizes"].value == "/cache/sizes/config.json"
    # Another flag may hold such a text, too.
    assert values["plain"].value == names["plain"]
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"--{name}=hf" for name in FLAGS[:3]
    ]


def test_paths_stay(values, capsys):
    values(["x", "--model=/a/b"])
    hub_flags.make_local()
    assert values["model"].value == "/a/b" and values["spiece"].value is None
    assert capsys.readouterr().err == ""
