"""Results that travel: taken as done, whole families only, bad files refused."""

import json
import pathlib
import re

import pytest

from common.errors import UserError
from studies.kinds.registry import load
from studies.runner import known_jobs, study, study_report
from studies.runner.jobs import Job, Jobs


def job(runner, name, value=1, fails=False):
    """A job that leaves a number and a mark that it ran."""
    path = runner.path(name, "metrics.json")
    code = "import sys; sys.exit('no')"
    if not fails:
        text = json.dumps({"f1": value})
        code = f"open({path!r}, 'w').write({text!r})"
    return Job(name, (("-S", "-c", code),), {"value": (path, "f1")})


def jobs_of(runner, **changes):
    first = [job(runner, "row-0", 3), job(runner, "row-1", 4)]
    then = [job(runner, "row-0/task-0", 5), job(runner, "row-0/task-1", 6)]
    # The second row's task fails: its weights would be needed elsewhere.
    then += [job(runner, "row-1/task-0", fails=True), job(runner, "a/b", 7)]
    return first + then


@pytest.mark.long
def test_what_is_known_is_not_run(tmp_path):
    first = Jobs(str(tmp_path / "first"), lambda _: None)
    first.do_all(jobs_of(first))
    path = known_jobs.write(first, jobs_of(first))
    known = json.loads((tmp_path / "first" / "jobs.json").read_text())
    assert path == first.path("jobs.json")
    assert sorted(known) == ["a/b", "row-0", "row-0/task-0", "row-0/task-1"]

    second = Jobs(str(tmp_path / "second"), lambda _: None)
    assert known_jobs.adopt(second.folder, "") == 0
    assert known_jobs.adopt(second.folder, path) == 4
    assert known_jobs.adopt(second.folder, path) == 0
    second.do_all(jobs_of(second))
    for name in known:
        assert second.results[name] == first.results[name]
        assert not (tmp_path / "second" / name / "metrics.json").exists()
    assert (tmp_path / "second" / "row-1" / "metrics.json").exists()
    # Nothing is lost on the way through a third folder.
    known_jobs.write(second, jobs_of(second))
    assert json.loads((tmp_path / "second" / "jobs.json").read_text()) == known
    # Others commands are other jobs.
    hint = "made with other options; remove it and leave it out of --known,"
    with pytest.raises(UserError, match=hint):
        second.do(job(second, "row-0", 8))


def test_own_results_win(tmp_path):
    first, second = (Jobs(str(tmp_path / n), lambda _: None) for n in "ab")
    for runner in (first, second):
        runner.do(job(runner, "one"))
    path = known_jobs.write(first, [job(first, "one")])
    own = (tmp_path / "b" / "one" / "result.json").read_bytes()
    assert known_jobs.adopt(second.folder, path) == 0
    assert (tmp_path / "b" / "one" / "result.json").read_bytes() == own


def with_data(runner, name, *flags):
    plain = job(runner, name)
    (command,) = plain.commands
    return Job(name, ((*command, *flags),), plain.reads)


def test_jobs_of_other_records_are_not_known(tmp_path):
    """They were taken as done: only their own commands were compared."""

    def runner(name, *flags):
        home = tmp_path / name
        made = Jobs(str(home), lambda _: None)
        words = ("-c", "", f"--input_glob={tmp_path}/text-{name}/*", *flags)
        made.makers.append((*words, f"--output_dir={home}/records"))
        return made, Job("a", (("-c", "", f"--data_dir={home}/records"),))

    def places(name):
        return {"text": f"{tmp_path}/text-{name}/*"}

    first, job = runner("first")
    first.do(job)
    path = known_jobs.write(first, [job], places("first"))
    second, job = runner("second")
    known_jobs.adopt(second.folder, path, places("second"))
    second.do(job)
    assert not (tmp_path / "second" / "a" / "log.txt").exists()
    again = known_jobs.write(second, [job], places("second"))
    assert pathlib.Path(again).read_text() == pathlib.Path(path).read_text()
    third, job = runner("third", "--seq_len=9")
    known_jobs.adopt(third.folder, path, places("third"))
    with pytest.raises(UserError, match="other options of what it reads"):
        third.do(job)


def test_the_sets_lie_elsewhere_on_another_machine(tmp_path):
    first, second = (Jobs(str(tmp_path / n), lambda _: None) for n in "ab")
    there, here = {"data": "/there/sets"}, {"data": "sets/"}
    flags = ("--data_dir=/there/sets/trec", "--other=/there/sets2/a")
    done = with_data(first, "one", *flags, "--whole=/there/sets")
    first.do(done)
    path = known_jobs.write(first, [done], there)
    (words,) = json.loads((tmp_path / "a" / "jobs.json").read_text())["one"][
        "commands"
    ]
    assert words[-3:] == [
        "--data_dir={data}/trec",
        "--other=/there/sets2/a",
        "--whole={data}",
    ]
    assert known_jobs.adopt(second.folder, path, here) == 1
    flags = ("--data_dir=sets//trec", "--other=/there/sets2/a")
    same = with_data(second, "one", *flags, "--whole=sets/")
    assert second.do(same) == first.results["one"]
    assert not (tmp_path / "b" / "one" / "metrics.json").exists()
    known_jobs.write(second, [same], here)
    texts = [(tmp_path / n / "jobs.json").read_text() for n in "ab"]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"a": 3}',
        '{"a": {"commands": [], "result": 3}}',
        '{"a": {"result": {}}}',
        '{"a": {"commands": [], "inputs": 3, "result": {}}}',
        '{"a": {"commands": ["run.py"], "result": {}}}',
        '{"a": {"commands": [["run.py", 3]], "result": {}}}',
        '{"../a": {"commands": [], "result": {}}}',
        '{"/a": {"commands": [], "result": {}}}',
        '{"": {"commands": [], "result": {}}}',
    ],
)
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(UserError, match="jobs.json"):
        known_jobs.adopt(str(tmp_path / "out"), str(path))
    assert not (tmp_path / "out").exists()


def studied(options, folder, known=""):
    """A runner that has run, and the commands that it began."""
    runner = study.Study(str(folder), load(str(options), {}))
    runner._say = lambda line: None
    known_jobs.adopt(str(folder), known)
    runner.run()
    path = known_jobs.write(runner, [*runner.timings, *runner.listed])
    logs = folder.rglob("log.txt")
    return runner, path, {str(p.parent.relative_to(folder)) for p in logs}


@pytest.mark.slow
def test_a_study_of_known_jobs_runs_nothing(options, tmp_path, monkeypatch):
    """Neither text nor records nor timings; the same table and `jobs.json`."""
    text = options.read_text().replace('objective = "wrong"', "x = 1")
    text = 'vocabulary = { command = "STUB", output_dir = "V" }\n' + text
    stub = re.search(r'records = \{ command = "([^"]+)"', text)[1]
    options.write_text(
        text.replace("STUB", stub).replace('"V"', f'"{tmp_path}/v"')
    )
    rates = {"": (0.5, 0.1, 3)}  # too few slots, then enough
    monkeypatch.setattr(
        study_report,
        "target_rate",
        lambda home: rates.setdefault(home, (0.5, 0.5, 4)) if rates else 1 / 0,
    )
    first, path, began = studied(options, tmp_path / "first")
    assert {"vocabulary", "a-0", "speed/one-1"} < began
    # A file of an older version does not say which records there were.
    known = json.loads(pathlib.Path(path).read_text())
    for row in known.values():
        row.pop("about", None)
    (tmp_path / "old.json").write_text(json.dumps(known))
    third = study.Study(str(tmp_path / "third"), load(str(options), {}), True)
    lines = []
    third.records._say = lines.append
    known_jobs.adopt(third.folder, str(tmp_path / "old.json"))
    third.run()
    assert lines[0].startswith("note: rows a, b, c have results, but no record")
    rates.clear()
    second, again, began = studied(options, tmp_path / "second", path)
    assert not began
    assert second.text(second._rows()) == first.text(first._rows())
    assert second.records.rates == dict.fromkeys("abc", 0.5)
    assert pathlib.Path(again).read_text() == pathlib.Path(path).read_text()
    # A new seed needs the records, and its own kinds of jobs are timed.
    rates[""] = 1
    options.write_text(
        options.read_text().replace("n_seeds = 2", "n_seeds = 3")
    )
    _, _, began = studied(options, tmp_path / "second")
    assert began >= {"vocabulary", "a-2", "a-2/one-0", "speed/one-1"}
    assert not any(name.startswith(("a-0", "a-1")) for name in began)


@pytest.mark.slow
def test_equal_seconds_travel(options, tmp_path):
    """Steps that were measured on one machine are those of the other, too."""
    wrong = 'name = "c wrong", pretrain = { objective = "wrong" }'
    text = options.read_text()
    assert wrong in text
    right = 'name = "c", seconds_of = "b", pretrain = { n_layer = 2 }'
    options.write_text(text.replace(wrong, right))
    first, path, _ = studied(options, tmp_path / "first")
    second, _, began = studied(options, tmp_path / "second", path)
    assert began and all(name.startswith("records-") for name in began)
    assert second.text(second._rows()) == first.text(first._rows())
