"""The command that shows records of every kind."""

import pytest
from absl import flags

from common.errors import UserError
from data.pretraining.options import InspectOptions
from tests.data.language_modeling.stream_builds import run


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return run(folder, block_megabytes=0.0001)


def test_the_command_tells_kinds_apart(manifest, monkeypatch, capsys):
    from data import inspect

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


@pytest.mark.parametrize(
    "flag, mode, wanted",
    [
        ("split", "check", "--split is of --mode=record or statistics, found"),
        ("lane", "statistics", "--lane is of --mode=record, found statistics"),
        ("max_records", "record", "--max_records is of --mode=statistics, fou"),
        ("direction", "record", "--direction is of --data_dir=records of pr"),
    ],
)
def test_a_flag_without_an_effect_is_refused(
    manifest, monkeypatch, flag, mode, wanted
):
    from data import inspect

    values = flags.FlagValues()
    flags.DEFINE_string(flag, "", "", flag_values=values)
    values(["inspect", f"--{flag}=1"])
    monkeypatch.setattr(inspect.flag_values, "FLAGS", values)
    options = InspectOptions(manifest.data_dir, mode=mode)
    monkeypatch.setattr(inspect.flag_values, "build", lambda _: options)
    with pytest.raises(UserError, match=wanted):
        inspect.main()
