"""run_lm.py from text to an answer: train, resume, evaluate, score, generate."""

import json
import math
import os
import re
import signal
import subprocess
import time
import types

import numpy as np
import pytest

from common.errors import UserError
from tests.conftest import ROOT
from tests.helpers import commands
from tests.helpers.runs.lm import SIZES, command, data, evaluation, run
from training.reporting import loss_log

__all__ = ["data"]  # a fixture


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """(model folder, what the training printed)."""
    folder = tmp_path_factory.mktemp("run") / "model"
    out = run(
        f"--data_dir={data / 'word'}",
        f"--model_dir={folder}",
        "--cutoffs=6,12",
        "--div_val=2",
        *SIZES,
    )
    return folder, out


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_losses(data, trained, tmp_path):
    folder = tmp_path / "model"
    arguments = (
        f"--data_dir={data / 'word'}",
        f"--model_dir={folder}",
        "--cutoffs=6,12",
        "--div_val=2",
        *SIZES,
    )
    process = subprocess.Popen(
        command(*arguments), cwd=ROOT, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not (folder / "model.ckpt-4.index").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run(*arguments)
    _, wanted = loss_log.read(str(trained[0]))
    _, found = loss_log.read(str(folder))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
def test_training_says_what_it_learns_from_and_how_far_it_came(trained):
    folder, out = trained
    assert "word tokens to train on, vocabulary" in out
    assert "held-out perplexity" in out
    assert {"vocabulary.json", "transformer_xl_config.json"} <= set(
        os.listdir(folder)
    )
    _, rows = loss_log.read(str(folder))
    assert rows[-1, 1] < rows[0, 1]


@pytest.mark.slow
def test_evaluations_in_every_unit_and_by_both_protocols(data, trained):
    """With `same_length` and full memory T and B change nothing but the
    starts of lanes."""
    how = ("--eval_mem_len=12", "--eval_same_length")
    one, (predicted, tokens) = evaluation(
        data, trained[0], *how, "--eval_batch_size=1", "--eval_seq_len=5"
    )
    assert predicted == tokens - 1
    other, _ = evaluation(
        data, trained[0], *how, "--eval_batch_size=1", "--eval_seq_len=13"
    )
    assert one["nats_per_token"] == pytest.approx(
        other["nats_per_token"], rel=1e-5
    )
    nats = one["nats_per_token"]
    assert one["token_perplexity"] == pytest.approx(math.exp(nats), rel=1e-4)
    text = (data / "valid.txt").read_text()
    bits = nats * tokens / len(text) / math.log(2)
    assert one["bits_per_byte"] == pytest.approx(bits, rel=1e-4)
    rows, (predicted, _) = evaluation(
        data,
        trained[0],
        "--protocol=anchor",
        "--eval_batch_size=3",
        "--eval_memory_start=zeros",
    )
    assert predicted == 3 * (tokens // 3 - 1)
    assert rows["nats_per_token"] != one["nats_per_token"]


@pytest.mark.slow
def test_scores_of_lines_and_generated_lines(data, trained, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat sat here .\n\nthe zebra ran .\n")
    out = tmp_path / "scores.jsonl"
    words = (
        f"--data_dir={data / 'word'}",
        f"--model_dir={trained[0]}",
        "--mode=score",
        f"--input_file={lines}",
    )
    run(*words, f"--output_file={out}")
    first, blank, second = map(json.loads, out.read_text().splitlines())
    rounded = tmp_path / "rounded.jsonl"
    other = ("--precision=mixed_bfloat16", "--intra_op_threads=1")
    run(*words, f"--output_file={rounded}", *other)
    near = json.loads(rounded.read_text().splitlines()[0])["log_prob"]
    assert near != first["log_prob"]
    assert near == pytest.approx(first["log_prob"], rel=0.02)
    assert blank["tokens"] == ["<eos>"]
    assert [x["line"] for x in (first, blank, second)] == [1, 2, 3]
    assert first["tokens"] == ["the", "cat", "sat", "here", ".", "<eos>"]
    assert first["first_token_scored"]
    assert first["log_prob"] == pytest.approx(sum(first["log_probs"]), abs=1e-4)
    assert second["tokens"][1] == "<unk>"
    answers = {
        cached: [
            json.loads(line)
            for line in run(
                f"--checkpoint={trained[0]}",
                "--prompt=the cow",
                "--max_new_tokens=20",
                "--num_samples=2",
                "--stop_lines=1",
                "--seed=3",
                f"--use_cache={cached}",
                module="serving.generate",
            ).splitlines()
        ]
        for cached in ("true", "false")
    }
    assert answers["true"] == answers["false"]
    for answer in answers["true"]:
        assert answer["text"].startswith("the cow")
        assert "<unk>" not in answer["text"]
        assert answer["ended"] == answer["text"].endswith("\n")


@pytest.mark.slow
def test_an_export_answers_as_the_model(data, trained, tmp_path):
    """Raw words in; the export itself is compared with the model."""
    import tensorflow as tf

    out = run(
        f"--model_dir={trained[0]}",
        "--task=lm",
        f"--output_dir={tmp_path}",
        module="serving.export",
    )
    assert f"exported language_model to {tmp_path}/1" in out
    about = json.loads((tmp_path / "1" / "signature.json").read_text())
    assert about["sizes"]["d_inner"] == 24  # a server bounds memory by them
    loaded = tf.saved_model.load(f"{tmp_path}/1")
    names = {"encode", "score", "generate", "generate_text", "serving_default"}
    assert set(loaded.signatures) == names | {"score_line", "score_text"}
    found = loaded.signatures["serving_default"](
        text=tf.constant(["the cat sat here .", "the  zebra"])
    )
    symbols = json.loads((data / "word" / "vocabulary.json").read_text())
    ids = found["token_ids"].numpy()
    words = [symbols["symbols"][i] for i in ids[0]]
    assert words == "<eos> the cat sat here . <eos>".split()
    assert symbols["symbols"][ids[1][2]] == "<unk>"
    assert list(found["num_tokens"].numpy()) == [7, 4]
    lines = tmp_path / "lines.txt"
    lines.write_text("the cat sat here .\n")
    scored = json.loads(
        run(
            f"--data_dir={data / 'word'}",
            f"--model_dir={trained[0]}",
            "--mode=score",
            f"--input_file={lines}",
        ).splitlines()[-1]
    )
    np.testing.assert_allclose(
        found["token_log_probs"].numpy()[0],
        scored["log_probs"],
        atol=2e-5,
    )
    # Without the data, from the checkpoint; "the cat" is given.
    whole, part = (
        json.loads(
            run(
                f"--checkpoint={trained[0]}",
                "--text=the cat sat here .",
                f"--context_chars={chars}",
                "--per_token",
                module="serving.score",
            )
        )
        for chars in (0, 8)
    )
    np.testing.assert_allclose(
        whole["mean_token_log_probs"], scored["log_probs"], atol=1e-4
    )
    assert len(whole["pieces"]) == whole["scored_tokens"]
    assert part["pieces"] == whole["pieces"][2:]
    assert whole["mean_log_prob"] == pytest.approx(scored["log_prob"], abs=1e-4)
    assert (whole["tokens"], part["scored_tokens"]) == (6, 4)
    assert part["mean_log_prob"] == pytest.approx(
        sum(scored["log_probs"][2:]), abs=1e-4
    )
    wrong = run(
        f"--checkpoint={trained[0]}",
        "--text=a",
        "--order=random",
        module="serving.score",
        status=1,
    )
    assert "leave --order out" in wrong


def test_wrong_input_is_one_line(data, tmp_path):
    """What is told before anything is trained."""
    word = f"--data_dir={data / 'word'}"
    model = f"--model_dir={tmp_path / 'model'}"
    (tmp_path / "empty.txt").write_text("\n")
    cases = [
        ([f"--data_dir={tmp_path}", model], "manifest.json"),
        ([word, model, "--cutoffs=9,4"], "must rise and lie below"),
        ([word, model, "--cutoffs=a"], "whole numbers"),
        ([word, model, "--div_val=2"], "needs `cutoffs`"),
        ([word, model, "--seq_len=100000"], "100000"),
        ([word, model, "--recipe=txl_ptbb"], "unknown --recipe"),
        ([word, model, "--mode=score"], "--input_file"),
        ([word, model, "--noscore_line_end"], "is of --mode=score"),
        (
            [word, model, "--mode=eval", "--eval_split=test"],
            "holds no checkpoint|no test split",
        ),
        ([word, model, "--mode=eval"], "holds no checkpoint"),
        ([word, model, "--seq_len=0"], "must be >= 1"),
        ([word, model, "--average_trigger=5"], "give --eval_every"),
        ([word, model, "--eval_split=vaild"], "no vaild split"),
        ([word, model, "--same_length", "--mem_len=0"], "only itself"),
        (
            [word, model, "--average_trigger=5", "--eval_every=9"]
            + ["--mode=train"],
            "wanted --mode=train_and_eval and",
        ),
        (
            [word, model, "--mode=eval", "--protocol=sliding"]
            + ["--recipe=txl_text8"],
            "holds no checkpoint",  # what the recipe gives is no contradiction
        ),
        (
            [word, model, "--mode=eval", "--protocol=sliding"]
            + ["--eval_same_length"],
            "every token only itself",
        ),
        ([word, model, "--average_last=2", "--ema_decay=0.9"], "one average"),
        ([word, model, "--word_dropout=1"], "word_dropout.* must be in"),
        (
            [word, model, "--vary_length", "--use_tpu"],
            "vary_length makes shapes",
        ),
        (
            [word, model, "--vary_length", "--seq_len=4"],
            "at least 5 tokens, and --seq_len is 4: give at least 5",
        ),
        (
            [word, model, "--vary_length", "--encoding=per_layer"],
            "up to 165 tokens, .* learns 150 places: .* --max_positions=165",
        ),
        # Keras put its own lines around what it stopped at.
        (
            [word, model, "--encoding=per_layer", "--max_positions=5"],
            "^--seq_len=150: the model learns 5 places .*--max_positions=150$",
        ),
        (
            [
                *(word, model, "--encoding=per_layer", "--seq_len=5"),
                "--eval_seq_len=6",
            ],
            "^--eval_seq_len=6: the model learns 5 places",
        ),
    ]
    found = in_one_process(
        "for case in json.loads(sys.argv[1]):\n"
        "    parse(case)\n"
        "    try:\n"
        "        run_lm.main()\n"
        "        print('nothing')\n"
        "    except UserError as e:\n"
        "        print(json.dumps(str(e)))\n",
        [case for case, _ in cases],
    )
    assert len(found) == len(cases)
    for line, (case, wanted) in zip(found, cases, strict=True):
        assert line != "nothing", case
        message = json.loads(line)
        assert re.search(wanted, message), (case, message)
        assert "\n" not in message


def in_one_process(body, argument):
    """Lines that start with a quote, a bracket or "nothing".

    Imports take most of the time of a command; `parse` gives flags as on a
    command line, with their first defaults.
    """
    script = (
        "import sys, json\n"
        "from absl import flags\n"
        "import run_lm\n"
        "from common.errors import UserError\n"
        "from flags.recipes import causal_lm_recipes\n"
        "from flags.training import causal_lm_flags\n"
        "from flags.training import transformer_xl_flags\n"
        "causal_lm_flags.define()\n"
        "F = flags.FLAGS\n"
        "first = {n: F[n].default for n in F}\n"
        "def parse(arguments):\n"
        "    F.unparse_flags()\n"
        "    for name in first:\n"
        "        F[name].unparse()\n"
        "        if F[name].default != first[name]:\n"
        "            F.set_default(name, first[name])\n"
        "    F(['run_lm.py', *arguments])\n"
    )
    done = commands.run("-c", script + body, json.dumps(argument))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return [x for x in lines if x.startswith(('"', "[", "nothing"))]


@pytest.mark.slow
def test_every_recipe_is_a_whole_command_with_the_published_count():
    """Parameters of the models that the recipes give, without arrays."""
    counts = {
        "txl_wt103_standard": (267_735, 151_119_838),
        "txl_wt103_large": (267_735, 285_205_322),
        "txl_enwik8_12": (204, 41_055_436),
        "txl_enwik8_18": (204, 88_670_000),
        "txl_enwik8_24": (204, 277_231_820),
        "txl_text8": (27, 40_964_635),
        "txl_text8_large": (27, 277_050_395),
        "txl_lm1b_base": (793_471, 355_749_746),
        "txl_lm1b_460m": (793_471, 466_962_290),
        "txl_lm1b_large": (793_471, 838_078_062),
        "txl_ptb": (10_000, 23_480_000),
    }
    found = in_one_process(
        "import tensorflow as tf\n"
        "from modeling.heads.causal_lm import CausalLanguageModel\n"
        "given = json.loads(sys.argv[1])\n"
        "assert set(given) == set(causal_lm_recipes.RECIPES)\n"
        "for name, (size, _) in given.items():\n"
        "    parse(['--data_dir=x', '--model_dir=y', f'--recipe={name}'])\n"
        "    shown = causal_lm_flags.apply_recipe()\n"
        "    causal_lm_flags.run_from_flags()\n"
        "    what = causal_lm_flags.from_flags()\n"
        "    config = transformer_xl_flags.from_flags(size)\n"
        "    with tf.Graph().as_default():\n"
        "        model = CausalLanguageModel(config)\n"
        "        count = sum(v.shape.num_elements() for v in model.variables)\n"
        "    print(json.dumps([name, count, len(shown), what.seq_len]))\n",
        counts,
    )
    assert len(found) == len(counts)
    for name, count, shown, length in map(json.loads, found):
        wanted = counts[name][1]
        near = 1e-3 if name in ("txl_enwik8_18", "txl_ptb") else 0
        assert count == pytest.approx(wanted, rel=near, abs=0), name
        assert shown > 20 and length


@pytest.mark.parametrize("protocol", ["segments", "sliding"])
def test_an_evaluation_says_how_far_distances_count(protocol):
    """What changes the numbers is in the line beside them."""
    from run_lm import _segments

    config = types.SimpleNamespace(
        mem_len=6, memory_start="empty", same_length=True, clamp_len=5
    )
    request = types.SimpleNamespace(
        objective=types.SimpleNamespace(config=config),
        must_match={"seq_len": 8},
    )
    what = types.SimpleNamespace(
        eval_split="valid", eval_seq_len=0, protocol=protocol, eval_stride=1
    )
    assert "T=8, clamp_len 5, " in _segments(request, what)
    config.clamp_len = -1
    assert "clamp_len" not in _segments(request, what)


def test_scores_take_no_other_file_s_place(tmp_path):
    """They were written over the lines themselves."""
    from run_lm import score

    lines, other = tmp_path / "lines.txt", tmp_path / "other.jsonl"
    for path in (lines, other):
        path.write_text("a b\n")
    for output, message in (
        (lines, "lines.txt would replace the input"),
        (other, "other.jsonl exists and is complete"),
    ):
        what = types.SimpleNamespace(
            input_file=str(lines), output_file=str(output)
        )
        with pytest.raises(UserError, match=message):
            score(None, what, None)
        assert output.read_text() == "a b\n"
