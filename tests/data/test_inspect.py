"""The command that shows records of every kind."""

import pytest

from common.errors import UserError
from tests.data.language_modeling.stream_builds import run


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return run(folder, block_megabytes=0.0001)


def test_the_command_tells_kinds_apart(manifest, monkeypatch, capsys):
    from data import inspect
    from data.pretraining.options import InspectOptions

    def show(**changes):
        options = InspectOptions(manifest.data_dir, **changes)
        monkeypatch.setattr(inspect.flag_values, "build", lambda _: options)
        inspect.main()
        return capsys.readouterr().out

    assert "records are good" in show()
    assert "text:\nthe dog sat" in show(mode="record", split="valid")
    assert "most frequent: <eos>" in show(mode="statistics")
    with pytest.raises(UserError, match="has no dev split"):
        show(mode="record", split="dev")
