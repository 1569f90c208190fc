"""The whole path of each encoder: pretraining, tuning, export, answers."""

import functools
import json
import random

import numpy as np
import pytest

import run_pretrain
from common.errors import UserError
from data.finetuning.options import FeatureOptions
from data.pretraining import build, run_data
from data.pretraining.options import BuildOptions
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import new_config
from serving.saved_model import SavedModel
from tests.helpers.runs import classifier as classifier
from training import loop
from training.finetuning import sources
from training.jobs.pretrain_options import PretrainOptions
from training.run_options import OptimizerOptions, RunOptions

pytestmark = pytest.mark.shared
SIZES = dict(vocab_size=1000, d_model=16, n_layer=2, n_head=2, d_inner=24)
CONFIGS = [
    BertConfig(**SIZES),
    AlbertConfig(**SIZES, embedding_size=8),
    ModernBertConfig(**SIZES, local_window=6),
]


@pytest.fixture(scope="module")
def records(tmp_path_factory, spiece_model):
    folder = tmp_path_factory.mktemp("records")
    rng = random.Random(3)
    words = "the of and to in is that it was for on are with as his".split()
    lines = []
    for _ in range(30):
        for _ in range(rng.randint(4, 9)):
            lines.append(" ".join(rng.choices(words, k=rng.randint(4, 12))))
        lines.append("")
    (folder / "text.txt").write_text("\n".join(lines))
    build.build(
        BuildOptions(
            input_glob=str(folder / "text.txt"),
            spiece_model_file=spiece_model,
            output_dir=str(folder / "data"),
            seq_len=24,
            reuse_len=0,
            bi_data=False,
            segments_per_lane=4,
            dev_fraction=0.2,
        )
    )
    return str(folder / "data")


def _pretrain(config, records, folder):
    data = run_data.open_data(records, {})
    second = {"next_sentence": config.model_type != "albert"}
    if config.model_type == "albert":
        second = {"sentence_order": True}
    what = PretrainOptions(
        data_dir=records, objective="mlm", mask_rate=0.3, **second
    )
    masking = run_pretrain.masking_options(data, what, config, 0)
    from data.pretraining.sampling.masking import masked_batches

    objective = run_pretrain.build_objective(data, what, config, True)
    options = RunOptions(
        model_dir=folder,
        train_steps=2,
        train_batch_size=4,
        eval_batch_size=4,
        iterations=1,
        save_steps=0,
        progress="none",
        optimizer=OptimizerOptions(learning_rate=1e-3),
    )
    result = loop.train(
        objective,
        masked_batches(data.train_batches(0), masking),
        options,
        eval_input_fn=masked_batches(data.held_out_batches(0), masking),
        must_match=data.must_match(),
        say=lambda line: None,
    )
    metrics = loop.evaluate(
        objective,
        masked_batches(data.held_out_batches(0), masking),
        options,
    ).metrics
    assert 0 < metrics["masked_lm_perplexity"] < 2000
    assert "perplexity" not in metrics
    data.copy_vocabulary(folder)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_pretrain_tune_export_answer(config, records, tmp_path, spiece_model):
    _pretrain(config, records, str(tmp_path / "pretrained"))
    classifier.write_task(tmp_path)
    options = classifier.make_options(
        tmp_path,
        steps=2,
        do_train=True,
        do_eval=True,
        do_predict=True,
        do_export=True,
        run={"init_checkpoint": str(tmp_path / "pretrained")},
    )
    from training.finetuning.options import FinetuneOptions

    fields = {
        name: getattr(options, name)
        for name in ("run", "do_train", "do_eval", "do_predict", "do_export")
    }
    options = FinetuneOptions(**fields, summary_type=None)
    options, layout = sources.settle(options)
    assert (layout, options.summary_type) == ("cls_first", "first")
    features = FeatureOptions(spiece_model, 16, layout=layout)
    from serving.export import export_model
    from training.finetuning.driver import Driver

    said: list[str] = []
    job = classifier.make_job(tmp_path, spiece_model, options, features)
    export = functools.partial(export_model, check=False)  # no process
    Driver(job, options, export, say=said.append).run()
    spec = json.loads((tmp_path / "model" / "task.json").read_text())
    assert spec["data_options"]["layout"] == layout
    # What the run predicted is what its export answers.
    rows = classifier.read_rows(
        tmp_path / "model" / "predictions" / "test_predictions.tsv"
    )[1:]
    texts = (tmp_path / "test.tsv").read_text().splitlines()[1:]
    model = SavedModel(str(tmp_path / "model" / "export"))
    answers = model({"text": texts})
    wanted = [[float(p) for p in row[2:]] for row in rows]
    np.testing.assert_allclose(answers["probabilities"], wanted, atol=2e-5)


def test_sizes_from_flags_make_the_encoder_or_one_line():
    config = new_config("albert", 50, {"d_model": 24, "embedding_size": 6})
    assert (config.d_embedding, config.n_layer, config.d_head) == (6, 12, 2)
    assert new_config("bert", 50, {"d_head": 64}).d_head == 64
    for model_type, values, message in (
        ("bert", {"mem_len": 8}, "--mem_len needs an encoder with memory"),
        ("bert", {"d_head": 5}, "--d_head=5.*has 64"),
        ("modernbert", {"untie_r": True}, "no such setting"),
        ("bert", {"local_window": 8}, "no such setting"),
    ):
        with pytest.raises(UserError, match=message):
            new_config(model_type, 50, values)
