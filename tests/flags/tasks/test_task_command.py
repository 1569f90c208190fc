"""What a command of one kind of task reads of its flags."""

import pytest
from absl import flags

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from flags import other_names
from run_classifier import COMMAND as CLASSIFIER
from run_race import COMMAND as RACE
from run_squad import COMMAND as SQUAD
from run_tagger import COMMAND as TAGGER


def trained(name="sst-2", head="classification"):
    return TaskSpec(name, head, ("0", "1"), 16, TextSettings(), "")


@pytest.mark.parametrize(
    "arguments", [["--labels=--1,-2"], ["--labels", "--1,-2"]]
)
def test_labels_may_look_like_flags(parse, arguments):
    for command, more in ((CLASSIFIER, [trained("tsv")]), (TAGGER, [])):
        parse(command, "--data_dir=d", *arguments)
        assert other_names.hint(arguments, flags.FLAGS) is None
        assert command.data_options(*more).labels == ("--1", "-2")


def test_help_lists_the_recipes_of_the_command(parse):
    parse(RACE)
    text = flags.FLAGS["recipe"].help
    assert "race_large_640_v1" in text and "squad" not in text
    parse(TAGGER, "--data_dir=d", "--do_train", "--recipe=race")
    assert "race" not in flags.FLAGS["recipe"].help
    with pytest.raises(UserError, match="^--recipe: run_tagger.py has no rec"):
        TAGGER.read()


def test_an_export_of_race_reads_no_text(parse):
    parse(RACE, "--do_export")
    assert RACE.read()["data"].data_dir == ""
    parse(RACE, "--do_eval")
    with pytest.raises(UserError, match="--data_dir must be given"):
        RACE.read()


@pytest.mark.parametrize(
    "flag", ["--summary_type=mean", "--nouse_summ_proj", "--pooling=original"]
)
def test_a_head_without_a_summary_takes_no_flag_of_one(parse, flag):
    for command in (SQUAD, TAGGER):
        parse(command, "--do_export")
        command.read()
        parse(command, "--do_export", flag)
        name = flag.partition("=")[0].replace("--no", "--")
        with pytest.raises(UserError, match=f"^{name} .* leave it out"):
            command.read()
    parse(RACE, "--data_dir=d", "--do_eval", flag)
    RACE.read()


@pytest.mark.parametrize("command", [CLASSIFIER, RACE, SQUAD, TAGGER])
def test_every_task_begins_with_an_encoder_alone(parse, command):
    named = ["--task_name=tsv"] * (command is CLASSIFIER)
    parse(command, "--do_export", "--head=encoder", *named)
    assert command.read()["options"].run.init_part == "encoder"


def test_a_trained_model_says_its_task(parse):
    parse(CLASSIFIER)
    found = CLASSIFIER.data_options(trained("sts-b", "regression"))
    assert (found.task_name, found.head) == ("sts-b", "regression")
    with pytest.raises(UserError, match="--task_name must be given"):
        CLASSIFIER.data_options(None)
    with pytest.raises(UserError, match="is of squad .* not for run_class"):
        CLASSIFIER.data_options(trained("squad", "span"))
    parse(CLASSIFIER, "--task_name=cola")
    assert CLASSIFIER.data_options(trained()).task_name == "cola"


@pytest.mark.parametrize(
    "task, flag, whose",
    [
        ("cola", "--labels=a,b", "is of classes of tables"),
        ("SST2", "--text_columns=text", "is of tables"),
        ("imdb", "--label_column=y", "is of tables"),
        ("ag", "--nohas_header", "is of tables"),
        ("mnli", "--allow_empty_text", "is of tables"),
        ("jsonl", "--nohas_header", r"is of tables \(tsv, csv\)"),
        ("tfds:glue/rte", "--has_header", r"is of tables \(tsv, csv\)"),
        ("csv", "--dev_seed=1", "is of --dev_fraction"),
        ("tsv", "--label_threshold=0.3", "is of --multi_label"),
        ("sst-2", "--label_separator=;", "is of --multi_label"),
        ("qnli", "--ranking_beta=0.1", "is of --task_name=wnli --ranking"),
        ("wnli", "--ranking_alpha=1", "is of --task_name=wnli --ranking"),
    ],
)
def test_a_flag_that_a_set_would_ignore_is_refused(parse, task, flag, whose):
    parse(CLASSIFIER, "--data_dir=d", f"--task_name={task}", flag)
    with pytest.raises(UserError, match=whose) as e:
        CLASSIFIER.data_options()
    assert str(e.value).startswith(flag.partition("=")[0].replace("--no", "--"))


@pytest.mark.parametrize(
    "flag", ["--text_column=1", "--tag_column=3", "--token_separator=_"]
)
def test_columns_are_of_files_of_columns(parse, tmp_path, flag):
    """They had no effect on spans of JSON lines."""
    for name in ("train.jsonl", "dev.json.gz"):
        (tmp_path / name).touch()
    name = flag.partition("=")[0]
    for where in (f"--data_dir={tmp_path}", "--train_file=A.JSONL"):
        parse(TAGGER, where, flag)
        choice = where.partition("=")[0]
        wanted = f"{name} is of {choice}=columns of tokens, found JSON lines: "
        with pytest.raises(UserError, match=wanted):
            TAGGER.data_options()
    parse(TAGGER, f"--data_dir={tmp_path}", "--predict_file=a.txt", flag)
    TAGGER.data_options()


def test_values_have_no_classes(parse):
    more = ("--is_regression", "--labels=a,b")
    parse(CLASSIFIER, "--data_dir=d", "--task_name=csv", *more)
    with pytest.raises(UserError, match="^--labels is of classes of tables"):
        CLASSIFIER.data_options()


def test_flags_that_a_set_follows(parse):
    for arguments in (
        [
            "--task_name=tsv",
            "--labels=a,b",
            "--text_columns=x",
            "--nohas_header",
        ],
        ["--task_name=trec", "--labels=a,b", "--label_column=y"],
        ["--task_name=tfds:glue/rte", "--text_columns=x"],
        ["--task_name=csv", "--multi_label", "--label_threshold=0.3"],
        ["--task_name=jsonl", "--dev_fraction=0.1", "--dev_seed=1"],
        ["--task_name=wnli", "--ranking", "--ranking_beta=0.1"],
    ):
        parse(CLASSIFIER, "--data_dir=d", *arguments)
        CLASSIFIER.data_options()
    # What a trained model keeps is not given.
    parse(CLASSIFIER, "--data_dir=d", "--task_name=cola")
    flags.FLAGS.set_default("labels", ["0", "1"])
    assert CLASSIFIER.data_options(trained()).labels == ("0", "1")
    parse(CLASSIFIER, "--data_dir=d", "--label_threshold=0.3")
    found = CLASSIFIER.data_options(trained("tsv", "multi_label"))
    assert found.label_threshold == 0.3


@pytest.mark.parametrize("more", [["--num_seeds=2", "--seed=4"], ["ENSEMBLE"]])
def test_several_models_say_their_task(parse, tmp_path, more):
    """As one does: their common folder has no task.json."""
    folder = tmp_path / "seed_4"
    folder.mkdir()
    trained("tsv", "multi_label").write(str(folder))
    more = [m.replace("ENSEMBLE", f"--ensemble={folder}") for m in more]
    common = ["--label_threshold=0.3", f"--model_dir={tmp_path}"]
    parse(CLASSIFIER, "--data_dir=d", "--do_eval", *more, *common)
    fields = CLASSIFIER.read()
    assert (fields["data"].head, fields["data"].task_name) == (
        "multi_label",
        "tsv",
    )
    assert fields["features"].max_seq_length == 16
    assert fields["options"].run.model_dir == str(tmp_path)
    parse(CLASSIFIER, "--data_dir=d", "--do_train", "--do_eval", *common, *more)
    with pytest.raises(UserError):  # what is trained has no settings yet
        CLASSIFIER.read()
