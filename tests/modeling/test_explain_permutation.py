"""The command."""

import pytest

from tests.helpers import commands

TEXT = "This is a sentence"


@pytest.mark.slow
@pytest.mark.shared
def test_command(spiece_model, tmp_path):
    def run(*flags):
        return commands.run("-m", "modeling.explain_permutation", *flags)

    done = run(
        f"--text={TEXT}", "--order=3,2,4,1", f"--output={tmp_path}/x.png"
    )
    assert done.returncode == 0 and "Pr(is | a)" in done.stdout
    assert (tmp_path / "x.png").exists()
    wrong = run(f"--text={TEXT}", "--order=3,x")
    assert wrong.returncode == 1 and "numbers" in wrong.stderr
    wrong = run(f"--text={TEXT}", "--order=3,2,4,1", "--n_layer=3")
    assert "of --view=joint or split, found masks" in wrong.stderr
    wrong = run(f"--text={TEXT}", "--order=1", "--split=pieces")
    assert wrong.returncode == 1 and "spiece_model_file" in wrong.stderr
    wrong = run(
        "--text=a b",
        "--order=1",
        "--split=pieces",
        f"--spiece_model_file={spiece_model}",
    )
    assert wrong.returncode == 1 and "each of 1.." in wrong.stderr
