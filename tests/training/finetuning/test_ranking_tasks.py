"""`--ranking` of QNLI and WNLI on made files, trained to the end."""

import json

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning.options import ClassifierDataOptions, FeatureOptions
from tests.helpers.runs.classifier import CONFIG, make_options, read_rows

COLOURS = ("red", "blue", "green", "grey")


def write_qnli(folder):
    """The right sentence is the one that says "river"; one question alone."""
    for split, count in (("train", 24), ("dev", 4)):
        lines = ["index\tquestion\tsentence\tlabel"]
        for i in range(count):
            where = f"Where is the {COLOURS[i % 4]} tower {i}?"
            lines.append(f"{i}\t{where}\tIt is in the winter.\tnot_entailment")
            if i:
                lines.append(f"{i}\t{where}\tBy the river it is.\tentailment")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def write_wnli(folder):
    """Pairs of rows on a pronoun; the first name is always the right one."""
    names = ("Ann", "Mary", "Susan", "Jane")
    for split, count in (("train", 12), ("dev", 3)):
        lines = ["index\tsentence1\tsentence2\tlabel"]
        for i in range(count):
            first, second = names[i % 4], names[(i + 1) % 4]
            premise = f"{first} saw {second} and then she went home {i}."
            for name in (first, second):
                said = f"Then {name} went home {i}."
                lines.append(f"{i}\t{premise}\t{said}\t{int(name == first)}")
        lines.append("99\tNobody saw it.\tThere is no such part here.\t0")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def run(folder, spiece, task, **changes):
    from data.finetuning.classifier.ranked import make_task
    from training.finetuning.driver import Driver

    (folder / "config.json").write_text(json.dumps(CONFIG))
    {"qnli": write_qnli, "wnli": write_wnli}[task](folder)
    options = make_options(
        folder, do_train=True, do_eval=True, do_predict=True, **changes
    )
    data = ClassifierDataOptions(task, str(folder), ranking=True)
    task = make_task(data, FeatureOptions(spiece, 32), options).load()
    return task, Driver(task, options, say=lambda line: None).run()


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("task", ["qnli", "wnli"])
def test_candidates_compete_from_files_to_predictions(
    tmp_path, spiece_model, task, capsys
):
    made, results = run(
        tmp_path,
        spiece_model,
        task,
        run={"train_steps": 40, "iterations": 20, "train_batch_size": 8},
    )
    said = capsys.readouterr().out
    assert results["dev"]["accuracy"] > 0.85
    rows = read_rows(tmp_path / "model/predictions/dev_predictions.tsv")[1:]
    if task == "qnli":
        assert "23 pairs of candidates, 1 candidates without a rival" in said
        best = [r[1] for r in rows[1:]]
        # One of each question's two candidates, whatever the scores are.
        assert all(
            {a, b} == {"entailment", "not_entailment"}
            for a, b in zip(best[::2], best[1::2], strict=True)
        )
    else:
        assert "7 examples" in said and "1 of them no schema" in said
        assert "6 candidates for 3 pronouns" in said
        assert rows[-1][1] == "0"
        assert {rows[0][1], rows[1][1]} == {"0", "1"}
        assert made.spec().head == "candidate_ranking"
        members = [{"logits": np.array([1.0, 3.0])}, {"logits": np.zeros(2)}]
        both = made.combine(members, [1.0, 3.0])
        assert both["logits"].tolist() == [0.25, 0.75]
        from serving.export import check_exportable

        with pytest.raises(UserError, match="cannot be exported"):
            check_exportable(made.spec())


def test_what_does_not_go_with_it(tmp_path, spiece_model):
    with pytest.raises(UserError, match="--ranking takes no --label_smoothing"):
        run(tmp_path, spiece_model, "qnli", label_smoothing=0.1)
