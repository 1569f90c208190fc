"""Nine languages from raw text to answers: the same pieces at every joint.

The commands run in the order in which they name each other: every line that
begins with "next:" is run as it was printed.
"""

import json
import pathlib
import shlex
import shutil

import numpy as np
import pytest

from common.errors import UserError
from data.text.tokenizer import Tokenizer
from tests.helpers import commands, languages

pytestmark = pytest.mark.slow
EAST = ("ja", "ko", "zh", "th")


def run(command: list[str]) -> str:
    """A command of the project; its standard output."""
    assert command[0] == "python"
    done = commands.run(*command[1:])
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def printed_next(output: str) -> list[str]:
    """The command that the output names."""
    lines = [x for x in output.splitlines() if x.startswith("next: ")]
    assert len(lines) == 1, output
    return shlex.split(lines[0].removeprefix("next: "))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Everything that the commands make, from vocabulary to SavedModel."""
    folder = tmp_path_factory.mktemp("languages")
    corpus = languages.write_corpus(folder / "text.txt", copies=8)
    output = run(
        shlex.split(
            f"python -m data.train_sentencepiece --input_glob={corpus} "
            f"--model_prefix={folder}/spiece --vocab_size=900 "
            "--character_coverage=1.0 --model_type=bpe"
        )
    )
    run(printed_next(output))
    output = run(
        shlex.split(
            f"python run_pretrain.py --data_dir={folder}/records "
            f"--model_dir={folder}/model --n_layer=1 --d_model=16 --n_head=2 "
            "--d_head=8 --d_inner=16 --train_batch_size=2 --train_steps=4 "
            "--iterations=2 --warmup_steps=0"
        )
    )
    assert "text         rule composed, cased" in output
    write_task(folder / "model-task")
    output = run(printed_next(output))
    assert "text         rule composed, cased (recorded" in output
    run(
        shlex.split(
            f"python -m serving.export --model_dir={folder}/model-classifier "
            "--nocheck"
        )
    )
    return folder


def write_task(folder: pathlib.Path) -> None:
    """Is a sentence of the east? The same rows train and judge."""
    folder.mkdir()
    rows = [
        f"{line}\t{'east' if language in EAST else 'west'}"
        for language in languages.LANGUAGES
        for line in languages.lines(language)
    ]
    for split in ("train", "dev"):
        text = "\n".join(["text\tlabel", *rows]) + "\n"
        (folder / f"{split}.tsv").write_text(text)


@pytest.fixture(scope="module")
def wanted(world):
    """Sentence -> ids by the vocabulary alone."""
    tokenizer = Tokenizer(str(world / "spiece.model"))
    assert str(tokenizer.settings) == "rule composed, cased"
    return {
        line: tokenizer.encode(line)
        for language in languages.LANGUAGES
        for line in languages.lines(language)
    }


def test_one_vocabulary_lies_everywhere(world):
    content = (world / "spiece.model").read_bytes()
    digest = Tokenizer(str(world / "spiece.model")).sha256
    for name in ("records", "model", "model-classifier"):
        assert (world / name / "spiece.model").read_bytes() == content
        about = json.loads((world / name / "spiece.json").read_text())
        assert about["model_sha256"] == digest
        assert about["text_settings"]["rule"] == "composed"
    for name, key in (
        ("records/manifest.json", "text_settings"),
        ("model-classifier/task.json", "text"),
        ("model-classifier/export/1/signature.json", "text_settings"),
    ):
        value = json.loads((world / name).read_text())
        assert value[key]["rule"] == "composed", name
        assert value["spiece_sha256"] == digest
    run_json = json.loads((world / "model/run.json").read_text())
    assert run_json["must_match"]["text_settings"]["rule"] == "composed"


def test_records_hold_the_pieces(world, wanted):
    from data.pretraining.manifest import PretrainingManifest
    from data.pretraining.report import read_records

    manifest = PretrainingManifest.load(str(world / "records"))
    rows = [
        read_records(manifest, f, 0, f.segments)["input_ids"]
        for f in manifest.select("train", "forward", 0)
    ]
    stream = np.concatenate([r.reshape(-1) for r in rows]).tolist()
    text = " ".join(map(str, stream))
    for language in languages.LANGUAGES:
        lines = languages.lines(language)
        found = [
            line for line in lines if " ".join(map(str, wanted[line])) in text
        ]
        # Some are cut at a segment's end each time that they come.
        assert len(found) > len(lines) / 2, language


def test_fine_tuning_reads_the_pieces(world, wanted):
    from data.finetuning.classifier.task import ClassifierTask
    from data.finetuning.options import ClassifierDataOptions, FeatureOptions
    from training.finetuning.options import FinetuneOptions
    from training.run_options import RunOptions

    task = ClassifierTask(
        ClassifierDataOptions("tsv", str(world / "model-task")),
        FeatureOptions(str(world / "model-classifier/spiece.model"), 128),
        FinetuneOptions(
            run=RunOptions(model_dir=str(world / "unused")), do_eval=True
        ),
    )
    split = task.read("dev", "eval")
    examples, table = split.examples, split.table
    batch = table.batch(np.arange(len(examples)), 128)
    for row, example in enumerate(examples):
        real = batch["input_ids"][row][batch["input_mask"][row] == 1]
        assert real[:-2].tolist() == wanted[example.texts[0]]


def test_the_exported_graph_gives_the_pieces(world, wanted):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)

    path = str(world / "model-classifier/export/1")
    tokenize = tf.saved_model.load(path).signatures["tokenize"]
    for line, ids in wanted.items():
        row = tokenize(text=tf.constant([line]))
        found = row["piece_ids"][0].numpy()
        assert found[: len(ids)].tolist() == ids, line


def test_predictions_are_those_of_the_offline_pieces(world, wanted):
    from common.contract.task_spec import TaskSpec
    from modeling import ClassificationModel
    from modeling.checkpoints import restore as checkpoints
    from serving.exported.answering import predict_file
    from serving.options import PredictOptions
    from serving.saved_model import SavedModel

    folder = str(world / "model-classifier")
    texts = world / "texts.txt"
    texts.write_text("\n".join(wanted) + "\n")
    output = world / "answers.jsonl"
    options = PredictOptions(
        folder + "/export", input_file=str(texts), output_file=str(output)
    )
    predict_file(SavedModel(folder + "/export"), options)
    answers = [json.loads(x) for x in output.read_text().splitlines()]
    assert len(answers) == len(wanted)
    spec = TaskSpec.read(folder)
    model = ClassificationModel(
        checkpoints.find_config(folder), **spec.head_options
    )
    checkpoints.restore(model, folder, require="all")
    symbols = Tokenizer(folder + "/spiece.model").symbols
    for ids, answer in list(zip(wanted.values(), answers, strict=True))[::5]:
        row = [*ids, symbols.sep, symbols.cls]
        segments = [0] * (len(row) - 1) + [2]
        logits = model(np.asarray([row]), segment_ids=np.asarray([segments]))
        odds = np.exp(logits[0].numpy())
        np.testing.assert_allclose(
            [answer["probabilities"][x] for x in spec.labels],
            odds / odds.sum(),
            atol=1e-5,
        )


def test_fill_mask_generate_and_embed_read_the_pieces(world, wanted):
    from serving.generation import fill
    from serving.generation.embeddings import Embedder
    from serving.generation.language_model import load_encoder, load_model
    from serving.generation.options import ModelOptions

    options = ModelOptions(str(world / "model"))
    lm = load_model(options)  # as `serving.generate` does
    encoder, tokenizer = load_encoder(options, 16)
    lines = [languages.lines(name)[0] for name in languages.LANGUAGES]
    for line in lines:
        assert lm.tokenizer.encode(line) == wanted[line]
        ids, starts, ends = tokenizer.encode_spans(line)
        # Of the middle and of the end: `この<mask>は`, not two texts.
        for k in (len(ids) // 2, len(ids) - 1):
            word = line[starts[k] : ends[k]].lstrip()
            a = ends[k] - len(word)
            text = line[:a] + fill.MASK + line[ends[k] :]
            hidden = fill.parse(lm, text, [word])
            kept = np.delete(hidden.ids, hidden.positions).tolist()
            # The piece is hidden with all of its characters.
            assert word and kept == [
                i
                for i, start, end in zip(ids, starts, ends, strict=True)
                if end <= a or start >= ends[k]
            ]
    found = Embedder(encoder, tokenizer, 64).embed(lines, 4)
    for line, embedded in zip(lines, found, strict=True):
        assert embedded.pieces == tokenizer.encode_pieces(line)


def test_a_replaced_vocabulary_is_refused_at_every_load(world, tmp_path):
    """One of the same size, made of the same text by the other rule."""
    from common.vocabularies.text_settings import TextChoice, TextSettings
    from data.corpus.options import SentencePieceOptions
    from data.train_sentencepiece import train
    from serving.generation.language_model import load_tokenizer
    from serving.generation.options import ModelOptions
    from training.finetuning import sources
    from training.finetuning.options import FinetuneOptions
    from training.run_options import RunOptions

    size = Tokenizer(str(world / "spiece.model")).vocab_size
    train(
        SentencePieceOptions(
            str(world / "text.txt"),
            str(tmp_path / "other"),
            size,
            "bpe",
            1.0,
            TextSettings("original"),
        )
    )
    other = str(tmp_path / "other.model")
    pretrained, tuned = tmp_path / "model", tmp_path / "model-classifier"
    for folder in (pretrained, tuned):
        shutil.copytree(world / folder.name, folder)

    def refused(call, match="wanted (SHA-256|spiece_sha256)"):
        with pytest.raises(UserError, match=match):
            call()

    # Given by hand.
    refused(lambda: load_tokenizer(ModelOptions(str(pretrained), other)))
    start = RunOptions(
        model_dir=str(tmp_path / "new"), init_checkpoint=str(pretrained)
    )
    options = FinetuneOptions(run=start, do_train=True)
    said = TextChoice()
    refused(lambda: sources.find_text(options, other, said))
    own = FinetuneOptions(run=RunOptions(model_dir=str(tuned)), do_eval=True)
    refused(lambda: sources.find_text(own, other, said))
    # A flag that differs.
    copied = str(pretrained / "spiece.model")
    refused(
        lambda: sources.find_text(options, copied, TextChoice("original")),
        "wanted original, found composed",
    )
    # Put in the folder's place, with and without what lies beside it.
    for folder in (pretrained, tuned):
        shutil.copy(other, folder / "spiece.model")
    spiece = str(tuned / "spiece.model")
    for _ in range(2):
        refused(lambda: load_tokenizer(ModelOptions(str(pretrained))))
        refused(lambda: sources.find_text(own, spiece, said))
        refused(lambda: sources.find_text(options, copied, said))
        for folder in (pretrained, tuned):
            (folder / "spiece.json").unlink(missing_ok=True)
    for task in ([], ["--task=lm"]):
        folder = pretrained if task else tuned
        command = ("-m", "serving.export", *task, f"--model_dir={folder}")
        done = commands.run(*command, "--nocheck")
        assert done.returncode == 1
        assert "wanted" in done.stderr.splitlines()[-1], done.stderr


def test_records_of_other_settings_are_refused(world, tmp_path):
    """Built before a vocabulary's settings were read from it."""
    import run_pretrain
    from data.pretraining import manifest as manifest_lib
    from training.jobs.pretrain_options import PretrainOptions

    records = tmp_path / "records"
    shutil.copytree(world / "records", records)
    old = manifest_lib.PretrainingManifest.load(str(records))
    import dataclasses

    flags = {"uncased": False, "keep_accents": False}
    dataclasses.replace(
        old, options=old.options | flags, text_settings=None
    ).write()
    what = PretrainOptions(data_dir=str(records))
    with pytest.raises(UserError, match="wanted original, found composed"):
        run_pretrain.open_data(what)
