"""What a build says of sources, rates and empty records."""

import re

import pytest

from common.errors import UserError
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


def test_the_report_gives_rates_and_empty_records(folder, capsys):
    manifest = builds.run(folder, "report", quiet=False, dev_fraction=0.2)
    text = capsys.readouterr().out
    for split in ("train", "dev"):
        wanted, found = manifest.target_rates(split)
        assert f"{split}: {manifest.empty_share(split):.1%} of the" in text
        assert f"wanted {wanted:.4f} of the tokens, found {found:.4f}" in text
    assert manifest.target_rates("train")[1] == pytest.approx(1 / 6, rel=0.03)
    assert "are lost" not in text
    builds.run(folder, "few", quiet=False, num_predict=4)
    assert "of the targets are lost: --num_predict=4" in capsys.readouterr().out


def test_text_that_the_vocabulary_cannot_say_is_said(folder, capsys):
    builds.run(folder, "known", quiet=False)
    text = capsys.readouterr().out
    assert re.search(r"tokens \([0-4]\.\d\d% unknown\), ", text)
    assert "warning" not in text
    other = folder / "other.txt"
    other.write_text("маяк стоит у реки .\n\nсторож живёт там .\n\n" * 40)
    builds.run(folder, "unknown", quiet=False, input_glob=str(other))
    assert re.search(
        r"warning: train: [34]\d\.\d% of the tokens are <unk>: the vocabulary",
        capsys.readouterr().out,
    )


def test_a_dev_split_without_documents_is_said(folder, capsys):
    builds.run(folder, "no_dev", quiet=False, dev_fraction=1e-9)
    said = capsys.readouterr().out
    assert (
        "dev: none of the documents was drawn by --dev_fraction=1e-09" in said
    )


def test_data_without_a_target_are_refused(folder):
    with pytest.raises(UserError, match="no train record has a target: --mask"):
        builds.run(folder, "none", mask_alpha=1_000_000_000)


def test_chance_is_not_called_a_lack_of_slots(folder, capsys):
    (folder / "few.txt").write_text("the tower .\n\na lamp\n\nthe gate\n")
    few = {"input_glob": str(folder / "few.txt"), "max_empty_share": 1.0}
    lost = 0
    for seed in range(5):
        manifest = builds.run(
            folder, f"few{seed}", quiet=False, seed=seed, **few
        )
        wanted, reached = manifest.target_rates("train")
        lost += reached < 0.99 * wanted
    assert lost  # of so few tokens
    assert "are lost" not in capsys.readouterr().out
