"""The numbers of a SQuAD 2.0 evaluation where answering nothing is best."""

from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad.examples import SquadFile, SquadQuestion


def scores() -> dict[str, float]:
    """Two with an answer (F1 of the best texts 1 and 0), three without one.

    The odds say nothing, so the best threshold answers nothing.
    """
    golds = {"a": "red tower", "b": "river", "c": "", "d": "", "e": ""}
    texts = dict.fromkeys(golds, "hill") | {"a": "red tower"}
    odds = {"c": -3.0, "d": -2.0, "e": -1.0, "a": 1.0, "b": 2.0}
    file = SquadFile(
        ("red tower, river, hill",),
        tuple(
            SquadQuestion(name, "?", 0, (gold,) if gold else (), 0, bool(gold))
            for name, gold in golds.items()
        ),
        True,
    )
    nbest = {
        name: [{"text": text, "probability": 1.0}]
        for name, text in texts.items()
    }
    answers = squad_answers.SquadAnswers(texts, nbest, odds)
    threshold = squad_answers.best_threshold(file, answers)
    found = squad_answers.evaluate_answers(file, answers, threshold)
    assert found["HasAns_f1"] == 0.0 and found["best_f1"] == 60.0
    return found
