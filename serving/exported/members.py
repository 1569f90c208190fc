"""SavedModels of one task, asked as one model.

Classes, labels and options have the mean of the members' probabilities, values
their mean, answers in a paragraph are joined by their texts with the null odds
averaged: `data.finetuning.ensembles` and `data.finetuning.squad.answers`, as
`--ensemble` of the fine-tuning commands does. Members have their own
vocabularies, lengths and encoders.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from common.errors import UserError
from common.heads import CLASSIFIERS
from data.finetuning import ensembles
from data.finetuning.squad import answers as squad_answers
from data.finetuning.squad.answers import SquadAnswers
from data.finetuning.squad.predictions import EMPTY_LOG_PROB
from data.finetuning.task_settings import THRESHOLD as NULL_THRESHOLD
from serving.saved_model import RAW, SavedModel
from serving.signatures.choice import choice_of
from serving.signatures.sequence import THRESHOLD, answers_of

Outputs = Mapping[str, np.ndarray]
CHOICE, SPAN = "multiple_choice", "span"
# Entries of a list of answers; the first is also `answer_...`.
_NBEST = ("text", "start", "end", "probability", "start_log_prob")
_NBEST = (*_NBEST, "end_log_prob")


class Ensemble:
    """What `serving.exported.answering` asks, of several models.

    The weights are positive, one per model; () = all alike. `description` is
    the first model's `signature.json`, `version_dir` names all models and
    weights. Raises UserError: models of different tasks, or whose answers
    cannot be joined.
    """

    def __init__(
        self, models: Sequence[SavedModel], weights: Sequence[float] = ()
    ):
        self.models = list(models)
        self.weights = list(weights) or [1.0] * len(self.models)
        self.description = self.models[0].description
        self.version_dir = ",".join(
            f"{m.version_dir}*{w:g}"
            for m, w in zip(self.models, self.weights, strict=True)
        )
        _check_alike(self.models)

    def inputs(self, signature: str = RAW) -> dict[str, dict]:
        """Input name -> dtype and shape."""
        return self.models[0].inputs(signature)

    def __call__(self, inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
        """Runs one batch of raw texts through all models."""
        members = [model(inputs) for model in self.models]
        if len(members) == 1:
            return members[0]
        head = self.description["head"]
        if head == SPAN:
            return self._spans(members)
        joined = self._answers(head, members)
        # What is left counts tokens: the longest row, and whether one was cut.
        for name in _counts(members) - set(joined):
            joined[name] = np.max([m[name] for m in members], axis=0)
        return {name: joined[name] for name in sorted(joined)}

    def _answers(self, head: str, members: Sequence[Outputs]) -> dict:
        if head == "regression":
            members = [{"logits": m["value"][:, np.newaxis]} for m in members]
        logits = ensembles.combine(head, members, self.weights)["logits"]
        if head == CHOICE:
            answers = choice_of(logits)
        else:
            answers = answers_of(
                head,
                logits,
                self.description["labels"],
                {
                    **self.description.get("data_options", {}),
                    **self._threshold(THRESHOLD, 0.5),
                },
            )
        return {name: value.numpy() for name, value in answers.items()}

    def _threshold(self, name: str, default: float | None) -> dict:
        """The members' mean of what each found on its dev set; {} if one did not."""
        thresholds = [
            m.description.get("data_options", {}).get(name) for m in self.models
        ]
        # Also None where other weights of the member's folder found one.
        thresholds = [default if t is None else t for t in thresholds]
        if None in thresholds:
            return {}
        return {name: float(ensembles.mean(thresholds, self.weights))}

    def _spans(self, members: Sequence[Outputs]) -> dict[str, np.ndarray]:
        """Lists of answers by text; `answer` is "" above the threshold."""
        size = members[0]["nbest_text"].shape[1]
        joined = squad_answers.combine(
            [_span_answers(m) for m in members], self.weights, size
        )
        spans = {f"nbest_{name}": [] for name in _NBEST}
        for row, entries in joined.nbest.items():
            empty = {"text": b"", "probability": 0.0, "start": 0, "end": 0}
            empty |= dict.fromkeys(_NBEST[-2:], EMPTY_LOG_PROB)
            filled = [e | _place(members, row, e["text"]) for e in entries]
            filled += [empty] * (size - len(filled))
            for name in _NBEST:
                spans[f"nbest_{name}"].append([e[name] for e in filled])
        result = {
            name: np.array(value, members[0][name].dtype)
            for name, value in spans.items()
        }
        for name in _NBEST[:4]:
            key = "answer" if name == "text" else f"answer_{name}"
            result[key] = result[f"nbest_{name}"][:, 0].copy()
        odds = np.array(list(joined.null_odds.values()), np.float32)
        for threshold in self._threshold(NULL_THRESHOLD, None).values():
            none = odds > threshold
            result["answer"][none] = b""
            result["answer_start"][none] = result["answer_end"][none] = 0
        result["null_odds"] = odds
        for name in _counts(members) & {"num_windows", "truncated"}:
            result[name] = np.max([m[name] for m in members], axis=0)
        return {name: result[name] for name in sorted(result)}


def _counts(members: Sequence[Outputs]) -> set[str]:
    """Outputs that all have: an earlier export may lack one."""
    return set.intersection(*map(set, members))


def _check_alike(models: Sequence[SavedModel]) -> None:
    first = models[0]
    head = first.description["head"]
    known = (*CLASSIFIERS, CHOICE, SPAN)
    if head not in known and len(models) > 1:
        raise UserError(
            f"--ensemble is for {', '.join(known)}, found {head} in "
            f"{first.version_dir}"
        )
    for model in models[1:]:
        for name in ("task", "head", "labels"):
            wanted, found = (m.description[name] for m in (first, model))
            if wanted != found:
                raise UserError(
                    f"--ensemble: {model.version_dir}: {name}: wanted {wanted} "
                    f"as of {first.version_dir}, found {found}"
                )
        wanted, found = (
            m.description.get("data_options", {}).get("text_columns")
            for m in (first, model)
        )
        # Case does not matter in names.
        if wanted and found and _folded(wanted) != _folded(found):
            raise UserError(
                f"--ensemble: {model.version_dir}: wanted the text columns "
                f"{', '.join(wanted)} in this order, as of "
                f"{first.version_dir}, found {', '.join(found)}; the models "
                "would read each other's texts"
            )
        if list(first.inputs()) != list(model.inputs()):
            raise UserError(
                f"--ensemble: {model.version_dir}: wanted the inputs "
                f"{list(first.inputs())} as of {first.version_dir}, found "
                f"{list(model.inputs())}"
            )


def _folded(names: Sequence[str]) -> list[str]:
    return [name.casefold() for name in names]


def _span_answers(outputs: Outputs) -> SquadAnswers:
    """Row -> its answers, without the empty ones that fill the list up."""
    nbest = {}
    for row in range(len(outputs["nbest_text"])):
        scores = outputs["nbest_start_log_prob"][row]
        count = max(1, int((scores > EMPTY_LOG_PROB).sum()))
        nbest[row] = [
            {
                name: outputs[f"nbest_{name}"][row, i].item()
                if name != "text"
                else outputs["nbest_text"][row, i]
                for name in ("text", *_NBEST[-2:])
            }
            for i in range(count)
        ]
    odds = dict(enumerate(outputs["null_odds"].tolist()))
    return SquadAnswers({}, nbest, odds)


def _place(members: Sequence[Outputs], row: int, text: bytes) -> dict:
    """Characters of an answer, of the first member that gives it."""
    for outputs in members:
        for i in np.flatnonzero(outputs["nbest_text"][row] == text):
            return {
                name: int(outputs[f"nbest_{name}"][row, i])
                for name in ("start", "end")
            }
    raise AssertionError(f"no member says {text!r}")
