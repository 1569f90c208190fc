"""RECL: the worked example, its properties, and files that are refused."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from common.errors import UserError
from studies.language import effective_context as recl
from tests.conftest import ROOT


@pytest.mark.shared
def test_the_worked_examples(golden):
    paths = sorted((golden / "txl").glob("*/recl*.json"))
    assert paths
    for path in paths:
        case = json.loads(path.read_text())
        group = recl.Group(
            tuple(case["models"]),
            np.array(case["contexts"]),
            np.array(case["losses"]),
        )
        for fraction, wanted in case["expected"].items():
            found = recl.effective_context(
                group, float(fraction), case["threshold"]
            )
            assert found.recl.tolist() == wanted["recl"]
            np.testing.assert_allclose(
                found.gains, wanted["relative_gain"], rtol=0, atol=1e-9
            )


def made_group(lengths, tokens=400, seed=3):
    """Models whose loss falls until their own length, and no further."""
    contexts = np.arange(100, 800, 100)
    noise = np.random.default_rng(seed).normal(4, 0.5, tokens)
    losses = [
        [noise - 0.05 * min(c, length) / 100 for c in contexts]
        for length in lengths
    ]
    names = tuple(f"m{length}" for length in lengths)
    return recl.Group(names, contexts, np.array(losses))


def test_a_model_gains_until_its_own_length():
    group = made_group((300, 500, 10000))
    for fraction in recl.FRACTIONS:
        found = recl.effective_context(group, fraction)
        assert found.recl.tolist() == [300, 500, 700]
        assert found.at_end.tolist() == [False, False, True]
    interval = recl.bootstrap(group, 0.5, 0.01, 20, seed=1)
    assert interval.tolist() == [[300, 300], [500, 500], [700, 700]]


def test_no_order_of_models_or_tokens_matters():
    group = made_group((300, 500))
    group = group._replace(
        losses=group.losses
        + np.random.default_rng(0).normal(0, 0.02, group.losses.shape)
    )
    one = recl.effective_context(group, 0.3)
    mixed = np.random.default_rng(1).permutation(group.losses.shape[-1])
    other = recl.effective_context(
        group._replace(losses=group.losses[::-1][..., mixed]), 0.3
    )
    np.testing.assert_allclose(other.gains[::-1], one.gains, atol=1e-12)
    assert other.recl[::-1].tolist() == one.recl.tolist()


def test_a_worse_model_is_capped_by_the_group():
    """Twice the loss gains nothing where another is better already."""
    group = made_group((300, 10000))
    worse = group.losses[1] + 5
    capped = group._replace(losses=np.stack([group.losses[0], worse]))
    assert recl.effective_context(capped, 1.0).recl[1] == 100


def write(folder, name, **changes):
    group = made_group((300,), tokens=20)
    arrays = {"losses": group.losses[0], "contexts": group.contexts}
    path = folder / f"{name}.npz"
    kept = {k: v for k, v in (arrays | changes).items() if v is not None}
    np.savez(path, **kept)
    return str(path)


def test_files_that_cannot_be_used(tmp_path):
    good = write(tmp_path, "good")
    bad = np.full((7, 20), np.nan)
    for changes, message in (
        ({"losses": None}, "found \\['contexts'\\]"),
        ({"losses": np.zeros((3, 20))}, "\\(3, 20\\) and \\(7,\\)"),
        ({"contexts": np.zeros(7)}, "rising `contexts`"),
        ({"losses": bad}, "not finite"),
        ({"positions": np.arange(3)}, "wanted 20 `positions`"),
        ({"positions": np.arange(20) + 1}, "positions` are not those of"),
        ({"contexts": np.arange(7)}, "contexts` are not those of"),
        ({"contexts": np.array([{}], object)}, "pickle"),
        ({"contexts": np.array(["a"] * 7)}, "found `contexts` of <U1"),
        ({"losses": np.full((7, 20), "a")}, "found `losses` of <U1"),
    ):
        path = write(tmp_path, "bad", **changes)
        with pytest.raises(UserError, match=message):
            recl.read_group([good, path])
    (tmp_path / "text.npz").write_text("no zip")
    with pytest.raises(UserError, match="wanted an npz"):
        recl.read_losses(str(tmp_path / "text.npz"))
    with pytest.raises(UserError, match="does not exist"):
        recl.read_losses(str(tmp_path / "none.npz"))
    # Each ended in a stack trace, or in a line without the file.
    with open(tmp_path / "array.npz", "wb") as f:
        np.save(f, np.ones(3))
    with pytest.raises(UserError, match="array.npz: wanted .* found one array"):
        recl.read_losses(str(tmp_path / "array.npz"))
    cut = tmp_path / "cut.npz"
    cut.write_bytes(pathlib.Path(good).read_bytes()[:300])
    with pytest.raises(UserError, match="cut.npz: wanted .* not a zip file"):
        recl.read_losses(str(cut))
    with pytest.raises(UserError, match="--losses is empty"):
        recl.read_group([])


def test_models_of_a_group_predict_the_same_tokens(tmp_path):
    """Two splits of one length have the same positions: they were one group."""
    ids = np.arange(20) % 7
    first = write(tmp_path, "a", tokens=ids)
    other = write(tmp_path, "b", tokens=ids[::-1])
    unknown = write(tmp_path, "c")  # of another program
    assert len(recl.read_group([unknown, first, first]).models) == 3
    for group in ([first, other], [unknown, first, other]):
        with pytest.raises(
            UserError, match="b.npz: its `tokens` are not .*a.n"
        ):
            recl.read_group(group)
    wrong = write(tmp_path, "d", tokens=ids[:3])
    with pytest.raises(UserError, match="wanted 20 `tokens`, found"):
        recl.read_group([wrong])


def test_a_name_is_no_formula(tmp_path):
    """It ended in a stack trace, behind the table."""
    group = made_group((300, 500), tokens=9)._replace(models=("$\\a$", "b$$"))
    assert len(recl.draw_perplexities(group, str(tmp_path))) == 2


@pytest.mark.long
def test_the_command_prints_and_draws(tmp_path):
    group = made_group((300, 500), tokens=50)
    paths = [
        write(tmp_path, name, losses=losses)
        for name, losses in zip(group.models, group.losses, strict=True)
    ]
    command = [
        *(sys.executable, "-m", "studies.language.effective_context"),
        *("--losses=" + ",".join(paths), f"--output_dir={tmp_path}/out"),
        "--bootstrap=5",
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "m300   300 (300 to 300)" in done.stdout
    made = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert made == [
        "perplexity_by_context.png",
        "perplexity_by_context.svg",
        "perplexity_by_context.tsv",
        "recl.tsv",
        "relative_gain.png",
        "relative_gain.svg",
    ]
