"""The rates of a study of targets, with the builder's own records."""

import random

import pytest

from data.pretraining import build
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import BuildOptions
from studies.kinds.registry import load
from studies.runner import study, study_records, study_report
from studies.runner.jobs import Job, Jobs
from studies.runner.study_commands import Command
from studies.runner.study_rows import RowOptions

pytestmark = pytest.mark.shared
SIZES = {"seq_len": 64, "reuse_len": 32, "dev_fraction": 0.1}
OPTIONS = """
reference = "a"
figure_base = "a"
pretrain_seeds = 1
finetune_seeds = 1
pretrain = { command = "-c 0", train_steps = 1 }
columns = [{ name = "loss", file = "eval.json", metric = "loss", digits = 1 }]
rows = [
  { name = "a few slots", records = { num_predict = 8 } },
  { name = "b enough slots", records = { span_unit = "single" } },
  { name = "c other rate", records = { mask_alpha = 7 } },
]
[records]
command = "-m data.create_pretraining_data"
input_glob = "TEXT"
spiece_model_file = "PIECES"
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rng = random.Random(5)
    words = "the of and to in is that it was for on are with as his".split()
    documents = []
    for _ in range(60):
        lines = [
            " ".join(rng.choices(words, k=rng.randint(4, 12)))
            for _ in range(rng.randint(9, 15))
        ]
        documents.append("\n".join(lines) + "\n")
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(documents))
    return str(path)


def test_rates_are_read_from_records(text, tmp_path, spiece_model):
    home = str(tmp_path / "data")
    given = BuildOptions(
        input_glob=text,
        spiece_model_file=spiece_model,
        output_dir=home,
        **SIZES,
    )
    build.build(given)
    wanted, found, slots = study_report.target_rate(home)
    manifest = PretrainingManifest.load(home)
    assert wanted == pytest.approx(1 / 6)
    assert found == pytest.approx(wanted, rel=0.05)
    assert slots == manifest.num_predict >= 64 / 6


def test_a_folder_of_records_has_one_command(tmp_path):
    """A job seemed to read two: flags come back from JSON in another order."""
    runner = Jobs(str(tmp_path), lambda line: None)
    records = study_records.Records(runner, lambda line: None)
    command = Command(("-c", "0"), {"seed": 1})
    for key, flags in (("a", {"y": 1, "x": 2}), ("b", {"x": 2, "y": 1})):
        about = [{"records": flags}]
        home, _ = records.known(RowOptions(key), command, about)
    read = Job("a", (("-c", "0", f"--data_dir={home}"),))
    assert len(runner._whole(read).inputs) == 1


@pytest.mark.slow
def test_slots_grow_until_the_rate_is_the_wanted_one(
    text, tmp_path, spiece_model
):
    path = tmp_path / "options.toml"
    sizes = "".join(f"{name} = {value}\n" for name, value in SIZES.items())
    found = OPTIONS.replace("TEXT", text).replace("PIECES", spiece_model)
    path.write_text(found + sizes)
    folder = tmp_path / "out"
    options = load(str(path), {})
    runner = study.Study(str(folder), options)
    runner._say = lambda line: None
    homes = {}
    for row in options.rows:
        homes[row.key], error = runner._records(row)
        assert not error
    # The first row's slots do not hold its targets: it has other records now.
    first = PretrainingManifest.load(homes["a"])
    assert first.num_predict > 8
    rates = runner.records.rates
    for key, wanted in (("a", 1 / 6), ("b", 1 / 6), ("c", 1 / 7)):
        assert rates[key] >= (1 - study_records.RATE) * wanted
    # And the table knows which rows it may compare.
    for row in "abc":
        runner.results[f"{row}-0"] = {"loss": ord(row)}
    rows = [runner._row(row) for row in options.rows]
    table = study_report.text(options, rows)
    assert table.startswith("| row | targets | loss |")
    assert f"| a few slots | {rates['a']:.2%} | " in table
    assert table.count("other target rate") == 1
    assert "| less a few slots |  | +1.0 |" in table
