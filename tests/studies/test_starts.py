"""Given weights and random ones of the same architecture, as flags."""

import pytest

from common.errors import UserError
from modeling.checkpoints.restore import find_config
from modeling.encoders.registry import read_config
from modeling.encoders.xlnet.config import XLNetConfig
from studies import starts
from tests.helpers import released_folders


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "start"
    home.mkdir()
    config = XLNetConfig(17, 8, 2, 2, 4, 12, init_std=0.05)
    config.to_json_file(str(home / "xlnet_config.json"))
    return home


def flags(start, folder, deviation=0.0, write=True):
    home = str(folder.parent / "random")
    return starts.flags_of(start, str(folder), home, deviation, write)


def test_weights_need_an_architecture_alone(folder):
    assert flags("weights", folder) == {"init_checkpoint": str(folder)}
    with pytest.raises(UserError, match="holds no checkpoint"):
        flags("weights", folder.parent)


def test_a_released_folder_has_the_architecture_in_another_form(tmp_path):
    """A released XLNet's `config.json` is none of our files."""
    folder = released_folders.write("xlnet spiece", tmp_path)
    assert not (folder / "xlnet_config.json").exists()
    assert flags("weights", folder) == {"init_checkpoint": str(folder)}
    path = tmp_path / "random" / "xlnet_config.json"
    assert flags("random", folder) == {
        "model_config_path": str(path),
        "spiece_model_file": str(folder / "spiece.model"),
    }
    assert read_config(str(path)) == find_config(str(folder))


def test_random_weights_have_the_vocabulary_too(folder):
    with pytest.raises(UserError, match="wanted a vocabulary"):
        flags("random", folder)
    (folder / "spiece.model").write_bytes(b"")
    found = flags("random", folder)
    assert found == {
        "model_config_path": str(folder / "xlnet_config.json"),
        "spiece_model_file": str(folder / "spiece.model"),
    }
    path = folder.parent / "random" / "xlnet_config.json"
    assert flags("random", folder, 0.02, write=False) == found | {
        "model_config_path": str(path)
    }
    assert not path.exists()
    flags("random", folder, 0.02)
    assert read_config(str(path)).init_std == 0.02
