"""Scripts of TPU VMs: exact lines, refusals, and what a stopped job says."""

import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from flags.recipes import finetune_recipes, pretrain_recipes
from tests.conftest import ROOT
from tests.helpers import fake_tpu
from tests.scripts.tpu.small_programs import program

FINE_TUNE = {"INIT_CHECKPOINT": "gs://b/init", "SPIECE": "gs://b/spiece.model"}
SCRIPTS = {
    "pretrain": {"DATA_DIR": "gs://b/records"},
    "classifier": {"DATA_DIR": "gs://b/MNLI", **FINE_TUNE},
    "race": {"DATA_DIR": "gs://b/RACE", **FINE_TUNE},
    "squad": {
        "TRAIN_FILE": "gs://b/train.json",
        "PREDICT_FILE": "gs://b/dev.json",
        **FINE_TUNE,
    },
}
SETTINGS = (
    "CREATE DELETE SPOT SUPERVISE TYPE RUNTIME ZONE PROJECT TPU_NAME RECIPE TASK"
).split()


def bash(path, *arguments, cwd=ROOT, **environment):
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in SETTINGS and not k.startswith(("TPU_", "PYTHON", "VENV"))
    }
    return subprocess.run(
        ["bash", str(path), *arguments],
        cwd=cwd,
        env=kept | {k: str(v) for k, v in environment.items()},
        capture_output=True,
        text=True,
        timeout=120,
    )


def dry_run(name, *arguments, **environment) -> list[str]:
    """The lines that the script would run."""
    values = SCRIPTS[name] | {"MODEL_DIR": "gs://b/model"} | environment
    done = bash(f"scripts/tpu/{name}.sh", "--dry_run", *arguments, **values)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [n for n in lines if n and not n.startswith("==")]


def remote(line) -> list[str]:
    """The words of the command that an ssh line runs on the VM."""
    words = shlex.split(line)
    assert words[:5] == ["gcloud", "compute", "tpus", "tpu-vm", "ssh"]
    (command,) = [w for w in words if w.startswith("--command=")]
    return shlex.split(command.removeprefix("--command="))


def job(line) -> tuple[list[str], list[str]]:
    """(settings, the project's command) of a line that starts a job."""
    words = remote(line)
    at = words.index("bash")
    assert words[at + 1] == "xlnet-tf2/scripts/tpu/job.sh"
    return words[:at], words[at + 2 :]


@pytest.mark.parametrize("name", SCRIPTS)
def test_one_host(name):
    lines = dry_run(name, "--seed=7", CREATE=1, DELETE=1)
    make, pack, copy, install, run, delete = lines
    assert make == (
        "gcloud compute tpus tpu-vm create xlnet --accelerator-type=v3-8 "
        "--version=tpu-ubuntu2204-base --zone=us-central1-a"
    )
    assert pack.startswith("tar ") and "'--exclude=./.venv*'" in pack
    assert copy.endswith(
        "scp /tmp/xlnet-tf2.tgz xlnet: --worker=all --zone=us-central1-a"
    )
    assert "--worker=all" in install
    assert remote(install)[-2:] == ["bash", "xlnet-tf2/scripts/tpu/install.sh"]
    assert "--worker=0" in run
    settings, command = job(run)
    assert settings == ["TPU_RUNTIME=se"]
    assert command[0] == f"run_{name}.py"
    assert "--seed=7" in command
    assert command[-3:] == [
        "--use_tpu",
        "--tpu=local",
        "--precision=mixed_bfloat16",
    ]
    assert delete == (
        "gcloud compute tpus tpu-vm delete xlnet --quiet --zone=us-central1-a"
    )
    assert len(dry_run(name)) == 1  # neither made nor deleted


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_command_takes_these_flags(name, tmp_path):
    """It comes to the check of the environment, which is after the flags."""
    _, command = job(dry_run(name)[0])
    folder = fake_tpu.environment(tmp_path / "site", libtpu="0.0.52")
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.stderr.startswith("error: tensorflow-tpu 2.20.0 was seen to")
    recipes = pretrain_recipes if name == "pretrain" else finetune_recipes
    (recipe,) = [w for w in command if w.startswith("--recipe=")]
    known = {
        f"{n}_{v}" if not n.endswith(("_v1", "_v2")) else n
        for n in recipes.RECIPES
        for v in ("v1", "v2")
    }
    assert recipe.removeprefix("--recipe=") in known


@pytest.mark.parametrize("name", SCRIPTS)
def test_several_hosts(name):
    lines = dry_run(name, TYPE="v3-32", TPU_NAME="pod", PROJECT="p")
    workers, run = lines
    assert "--worker=all" in workers and "--project=p" in workers
    assert remote(workers) == [
        "TPU_RUNTIME=se",
        "bash",
        "xlnet-tf2/scripts/tpu/worker.sh",
    ]
    settings, command = job(run)
    assert settings == ["TPU_RUNTIME=se", "TPU_LOAD_LIBRARY=0"]
    for flag in ("--tpu=pod", "--tpu_zone=us-central1-a", "--gcp_project=p"):
        assert flag in command


@pytest.mark.parametrize(
    "kind, image, runtime",
    [
        ("v2-8", "tpu-ubuntu2204-base", "se"),
        ("v3-8", "tpu-ubuntu2204-base", "se"),
        ("v4-8", "tpu-ubuntu2204-base", "se"),
        ("v5litepod-8", "v2-alpha-tpuv5-lite", "pjrt"),
        ("v5p-8", "v2-alpha-tpuv5", "pjrt"),
        ("v6e-8", "v2-alpha-tpuv6e", "pjrt"),
    ],
)
def test_generations(kind, image, runtime):
    make, *_, run = dry_run("pretrain", CREATE=1, TYPE=kind)
    assert f"--accelerator-type={kind} --version={image} " in make
    assert job(run)[0] == [f"TPU_RUNTIME={runtime}"]
    make, *_ = dry_run("pretrain", CREATE=1, TYPE=kind, RUNTIME="mine")
    assert "--version=mine " in make


@pytest.mark.parametrize(
    "values, wanted",
    [
        ({"TYPE": "v9-8"}, "TYPE=v9-8 is not v2-N"),
        ({"TYPE": "v3-x"}, "does not end in a number"),
        ({"TYPE": "v6e-16"}, "take v6e-8 or smaller"),
        ({"DATA_DIR": ""}, "set DATA_DIR, for example DATA_DIR=gs://"),
    ],
)
def test_refusals(values, wanted):
    values = {"DATA_DIR": "gs://b/d", "MODEL_DIR": "gs://b/m"} | values
    done = bash("scripts/tpu/pretrain.sh", "--dry_run", **values)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and wanted in done.stderr
    assert done.stderr.count("\n") == 1


def test_words_reach_the_command_as_they_are():
    text = "--data_dir=gs://b/it's a $HOME"
    assert text in job(dry_run("pretrain", text)[0])[1]


# Answers with the words after `action:`, one line per call.
ANSWERS = """#!/bin/bash
echo "$4" >> {folder}/log
[ -s {folder}/"$4" ] || exit 0
read -r status answer < {folder}/"$4"
sed -i 1d {folder}/"$4"
[ "$status" = 0 ] && echo $answer || echo $answer >&2
exit $status
"""


@pytest.mark.parametrize(
    "ssh, states, wanted, status",
    [
        # Preempted, made again at the second try: the command goes on there.
        (
            ["255", "0", "0"],
            ["0 PREEMPTED"],
            "ssh describe delete create delete create scp ssh ssh",
            0,
        ),
        # A while later it is gone.
        (
            ["1", "0", "0"],
            ["0 READY", "1 NOT_FOUND: Resource 'nodes/xlnet' was not found"],
            "ssh describe describe delete create delete create scp ssh ssh",
            0,
        ),
        # No network here: the VM may be well, and is not deleted.
        (
            ["255", "0"],
            ["1 Unable to find the server", "1 no network", "0 READY"],
            "ssh describe describe describe ssh",
            0,
        ),
        # The connection broke, nothing else.
        (["255", "0"], ["0 READY"] * 2, "ssh describe describe ssh", 0),
        # The command failed by itself.
        (["1"], ["0 READY"] * 2, "ssh describe describe", 1),
    ],
)
def test_a_preempted_vm_is_made_again(tmp_path, ssh, states, wanted, status):
    program(tmp_path / "bin/gcloud", ANSWERS.format(folder=tmp_path))
    program(tmp_path / "bin/tar", "#!/bin/bash\nexit 0\n")
    for name, lines in (("ssh", ssh), ("describe", states), ("create", ["1"])):
        (tmp_path / name).write_text("".join(f"{n}\n" for n in lines))
    done = bash(
        "scripts/tpu/pretrain.sh",
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        DATA_DIR="gs://b/d",
        MODEL_DIR="gs://b/m",
        SUPERVISE=1,
        SPOT=1,
        CHECK_SECONDS=0,
    )
    assert done.returncode == status
    found = (tmp_path / "log").read_text().split()
    assert found == wanted.split()


def test_a_supervisor_prints_what_it_would_do():
    run, describe, delete, make, *more, again = dry_run(
        "pretrain", SUPERVISE=1, SPOT=1
    )
    assert describe == (
        "gcloud compute tpus tpu-vm describe xlnet '--format=value(state)' "
        "--zone=us-central1-a"
    )
    assert " delete xlnet --quiet" in delete and " --spot " in make
    assert len(more) == 3 and again == run


@pytest.mark.parametrize("status, deleted", [(0, True), (3, False)])
def test_a_failed_job_keeps_the_vm(tmp_path, status, deleted):
    log = tmp_path / "log"
    program(
        tmp_path / "bin/gcloud",
        f'#!/bin/bash\necho "$4" >> {log}\n[ "$4" = ssh ] && exit {status}\n'
        "exit 0\n",
    )
    done = bash(
        "scripts/tpu/pretrain.sh",
        PATH=f"{tmp_path}/bin:{os.environ['PATH']}",
        DELETE=1,
        MODEL_DIR="gs://b/m",
        **SCRIPTS["pretrain"],
    )
    assert (done.returncode == 0) == deleted
    assert log.read_text().split() == ["ssh"] + ["delete"] * deleted
    if not deleted:
        assert "run_pretrain.py failed; xlnet is kept" in done.stderr
        assert "gcloud compute tpus tpu-vm delete xlnet" in done.stderr


@pytest.fixture
def checkout(tmp_path):
    """Scripts in a checkout of their own, with an environment `.venv`."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts/tpu", folder / "scripts/tpu")
    program(
        folder / ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"'
    )
    return folder


@pytest.mark.long
def test_a_job_ends_with_its_status_and_log(checkout):
    code = "import sys, time; print('at work'); time.sleep(1); sys.exit(5)"
    done = bash("scripts/tpu/job.sh", "-c", code, cwd=checkout)
    assert done.returncode == 5, done.stderr
    assert "at work" in done.stdout
    done = bash("scripts/tpu/job.sh", "-c", "print('fine')", cwd=checkout)
    assert done.returncode == 0
    assert "fine" in done.stdout and "at work" not in done.stdout


@pytest.mark.slow
def test_a_running_job_is_not_started_twice(checkout):
    code = (
        "import time; open('starts', 'a').write('x'); print('at work', "
        "flush=True); time.sleep(3); print('done')"
    )
    first = subprocess.Popen(
        ["bash", "scripts/tpu/job.sh", "-c", code],
        cwd=checkout,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for(checkout / "starts")
    os.kill(first.pid, signal.SIGHUP)  # the connection breaks
    second = bash("scripts/tpu/job.sh", "-c", code, cwd=checkout)
    first.communicate()
    assert second.returncode == 0, second.stderr
    assert "already running as process" in second.stdout
    assert "at work" in second.stdout and "done" in second.stdout
    assert (checkout / "starts").read_text() == "x"


@pytest.mark.long
def test_another_command_is_refused_while_one_runs(checkout):
    """It showed the other one's log and ended with its status."""
    code = "import time; open('starts', 'a').write('x'); time.sleep(60)"
    first = subprocess.Popen(
        ["bash", "scripts/tpu/job.sh", "-c", code],
        cwd=checkout,
        stdout=subprocess.DEVNULL,
    )
    wait_for(checkout / "starts")
    second = bash("scripts/tpu/job.sh", "-c", "print('other')", cwd=checkout)
    pid = (checkout / "run.pid").read_text().strip()
    subprocess.run(["pkill", "-P", pid], check=True)
    first.wait(30)
    assert second.returncode == 1
    assert f"process {pid} still runs another command (-c " in second.stderr
    assert f"pkill -P {pid}" in second.stderr
    third = bash("scripts/tpu/job.sh", "-c", "print('other')", cwd=checkout)
    assert third.returncode == 0 and "other" in third.stdout


@pytest.mark.long
def test_a_process_that_has_the_number_of_a_job_is_no_job(checkout):
    """After a restart of the machine: its log was waited for, and no end."""
    bash("scripts/tpu/job.sh", "-c", "print('fine')", cwd=checkout)
    other = subprocess.Popen(["sleep", "20"])
    try:
        (checkout / "run.pid").write_text(f"{other.pid}\n")
        again = bash("scripts/tpu/job.sh", "-c", "print('fine')", cwd=checkout)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert again.returncode == 0 and "fine" in again.stdout
    assert "already running" not in again.stdout


@pytest.mark.long
def test_a_killed_job_is_told(checkout):
    code = "import os; os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)"
    done = bash("scripts/tpu/job.sh", "-c", code, cwd=checkout)
    assert done.returncode == 1
    assert "the command was killed; see" in done.stderr


def test_a_job_needs_the_environment(checkout):
    shutil.rmtree(checkout / ".venv")
    done = bash("scripts/tpu/job.sh", "-c", "", cwd=checkout)
    assert done.returncode == 1
    assert "run bash scripts/tpu/install.sh first" in done.stderr


@pytest.mark.long
def test_pjrt_names_the_library(checkout, tmp_path):
    site = fake_tpu.environment(tmp_path / "site")
    code = "import os; print(os.environ['TF_PLUGGABLE_DEVICE_LIBRARY_PATH'])"
    program(
        checkout / ".venv/bin/python",
        f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"',
    )
    done = bash(
        "scripts/tpu/job.sh", "-c", code, cwd=checkout, TPU_RUNTIME="pjrt"
    )
    assert done.stdout.strip() == str(site / "libtpu/libtpu.so"), done.stderr
    done = bash("scripts/tpu/job.sh", "-c", "", cwd=checkout, TPU_RUNTIME="x")
    assert "TPU_RUNTIME must be se or pjrt" in done.stderr


@pytest.mark.long
def test_one_worker_per_host(checkout):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pids = checkout / "pids"
    program(
        checkout / ".venv/bin/start_grpc_tpu_worker",
        f"#!{sys.executable}\nimport os, socket, time\n"
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n')\n"
        f"s = socket.create_server(('127.0.0.1', {port}))\ntime.sleep(60)\n",
    )
    try:
        for _ in range(2):
            done = bash(
                "scripts/tpu/worker.sh", cwd=checkout, TPU_TASK_PORT=port
            )
            assert done.returncode == 0, done.stderr
            assert f"listens on port {port}" in done.stdout
        assert len(pids.read_text().split()) == 1
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    done = bash("scripts/tpu/worker.sh", "--dry_run", cwd=checkout)
    assert shlex.split(done.stdout)[-1] == ".venv/bin/start_grpc_tpu_worker"


def wait_for(path: pathlib.Path) -> None:
    for _ in range(600):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path} did not appear")
