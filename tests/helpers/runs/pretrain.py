"""Small records and the pretraining runs that read them."""

import random

import pytest

from data.pretraining import build
from data.pretraining.options import BuildOptions
from modeling import XLNetConfig
from training.reporting import loss_log
from training.run_options import OptimizerOptions, RunOptions, StrategyOptions


@pytest.fixture(scope="module")
def records(tmp_path_factory, spiece_model):
    folder = tmp_path_factory.mktemp("records")
    rng = random.Random(3)
    words = "the of and to in is that it was for on are with as his".split()
    lines = []
    for _ in range(40):
        for _ in range(rng.randint(4, 9)):
            lines.append(" ".join(rng.choices(words, k=rng.randint(4, 12))))
        lines.append("")
    text = folder / "text.txt"
    text.write_text("\n".join(lines))
    options = BuildOptions(
        input_glob=str(text),
        spiece_model_file=spiece_model,
        output_dir=str(folder / "data"),
        seq_len=20,
        reuse_len=10,
        segments_per_lane=5,
        dev_fraction=0.2,
    )
    build.build(options)
    return str(folder / "data")


def config_for(manifest, **changes):
    values = dict(
        vocab_size=manifest.vocab_size,
        d_model=8,
        n_layer=1,
        n_head=2,
        d_head=4,
        d_inner=12,
        mem_len=10,
        reuse_len=10,
        dropout=0.0,
        dropatt=0.0,
        init_std=0.2,
    )
    return XLNetConfig(**(values | changes))


def run_options(model_dir, replicas=0, **changes):
    values = dict(
        model_dir=str(model_dir),
        train_steps=12,
        train_batch_size=8,
        eval_batch_size=8,
        iterations=4,
        save_steps=4,
        progress="none",
        optimizer=OptimizerOptions(learning_rate=1e-2, weight_decay=0.01),
        strategy=StrategyOptions(
            distribution_strategy="mirrored" if replicas else "one_device",
            num_virtual_replicas=replicas,
        ),
    )
    return RunOptions(**(values | changes))


def losses(folder):
    return loss_log.read(str(folder))[1]
