"""QNLI and WNLI as rankings (`--ranking`; section 3.5 of the XLNet paper).

QNLI: the candidates of a question compete. Training examples are pairs of a
right and a wrong candidate, the right row first; at the end a question's best
one is `entailment`.
WNLI: the candidates for a pronoun compete by their probabilities in its place.
Files, metrics and predictions are those of the tasks.
"""

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np

from common.contract.schema import MOST_PIECES
from common.contract.symbols import CLS_LAST, SymbolIds
from common.errors import UserError
from data.finetuning import ensembles
from data.finetuning.classifier import schemas
from data.finetuning.classifier.task import ClassifierTask, hash_examples
from data.finetuning.examples import TextExample
from data.finetuning.features.table import FeatureTable
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.task import TRAIN, Split

# Of the better of two classes where a rule and no model has chosen.
_LEAST = 1e-6


def make_task(data: ClassifierDataOptions, *arguments) -> ClassifierTask:
    """A classification task; arguments as `ClassifierTask`'s."""
    if not data.ranking:
        return ClassifierTask(data, *arguments)
    kinds = {"qnli": QuestionTask, "wnli": PronounTask}
    return kinds[data.task_name.lower()](data, *arguments)


class _RankedTask(ClassifierTask):
    """What both have in common; arguments as `ClassifierTask`'s."""

    def __init__(self, data, features, options, *arguments):
        super().__init__(data, features, options, *arguments)
        changed = {
            "--class_weights": options.class_weights,
            "--label_smoothing": options.label_smoothing,
            "--pack": options.pack,
            "--train_examples": options.train_examples,
            "--segment_recurrence": features.segment_recurrence,
        }
        if wrong := [name for name, value in changed.items() if value]:
            raise UserError(f"--ranking takes no {wrong[0]}")

    def read(self, name, use):
        split = super().read(name, use)
        if use != TRAIN:
            return split
        return dataclasses.replace(split, table=self.rivals_of(split))

    def rivals_of(self, split: Split) -> FeatureTable:
        """Pairs of candidates, to train on."""
        raise NotImplementedError

    def must_match(self):
        return super().must_match() | {"ranking": True}


class QuestionTask(_RankedTask):
    """QNLI: pairs in training, the best of a question at the end.

    Questions with one candidate only are classified, in both.
    """

    def rivals_of(self, split):
        right = [e.label == self.set.labels[0] for e in split.examples]
        chosen = pairs([e.texts[0] for e in split.examples], right)
        table = paired(split.table, chosen)
        count = int(table.columns[RIVAL].sum())
        print(
            f"--ranking: {count} pairs of candidates, {len(chosen) - count} "
            "candidates without a rival"
        )
        return table

    def settled(self, split, logits):
        scores = logits[:, 0] - logits[:, 1]
        above = margins(scores, [e.texts[0] for e in split.examples])
        above = np.where(np.isnan(above), scores, above) / 2.0
        return np.stack([above, -above], 1)


@dataclasses.dataclass(frozen=True)
class _Candidates:
    """The rows of a split of WNLI."""

    schemas: list[schemas.Schema]  # of every row, candidates of a pronoun once
    row_of: list[int]  # row of every example; -1 where it is no schema

    @property
    def keys(self) -> list[tuple]:
        """Of the rows' pronouns."""
        return [schema.key for schema in self.schemas]


class PronounTask(_RankedTask):
    """WNLI: a row per candidate of a pronoun, hidden and predicted.

    Rivals of a candidate are those of the split's other rows on this pronoun,
    else noun phrases that a rule finds in the premise. A row that is no schema
    is answered 0.
    """

    predict_columns = ("ranks",)

    def __init__(self, data, features, *arguments):
        super().__init__(data, features, *arguments)
        if features.layout != CLS_LAST:
            raise UserError("--ranking of wnli needs XLNet, whose CLS is last")

    def with_features(self, name, examples, bad):
        self.num_texts = 2
        candidates = _candidates(examples)
        path = self.set.path(name)
        if not candidates.schemas:
            raise UserError(
                f"--ranking: {path}: wanted rows whose second text is a part "
                "of the first with a candidate for its pronoun, found none "
                f"in {len(examples)}; leave --ranking out"
            )
        table, hit = self.cached_table(
            f"wnli-ranking-{name}",
            {
                "task": "wnli-ranking",
                "data": hash_examples(examples),
                "most_pieces": MOST_PIECES,
            },
            [(s.before, s.candidate, s.after) for s in candidates.schemas],
            lambda tokenized: candidate_table(
                candidates.schemas,
                tokenized,
                self.features.row_length,
                self.tokenizer.symbols,
                path,
            ),
        )
        what = (
            f"wnli {name}: {len(examples)} examples of {path}, "
            f"{candidates.row_of.count(-1)} of them no schema; {table.num_rows} "
            f"candidates for {len(set(candidates.keys))} pronouns"
        )
        self.say_read(what, table, hit, bad)
        return Split(name, examples, table, candidates)

    def rivals_of(self, split):
        candidates = split.windows
        right = np.zeros(split.table.num_rows, bool)
        for example, row in zip(split.examples, candidates.row_of, strict=True):
            if row >= 0:
                right[row] |= example.label == self.set.labels[1]
        chosen = pairs(candidates.keys, right)
        # A wrong candidate teaches nothing without the right one.
        chosen = [pair for pair in chosen if right[pair[0]]]
        if not chosen:
            raise UserError(
                f"--ranking: {self.set.path(TRAIN)} has no pronoun with a right "
                f"candidate (label {self.set.labels[1]}), found "
                f"{len(split.examples)} rows; give WNLI's training file, or "
                "leave --ranking out"
            )
        print(f"--ranking: {len(chosen)} right candidates with their rivals")
        return paired(split.table, chosen)

    def settled(self, split, logits):
        """Probabilities of candidates `[R]` as logits of examples `[N, 2]`."""
        candidates = split.windows
        above = margins(logits, candidates.keys)
        above = np.where(np.isnan(above), -_LEAST, above)
        values = [
            above[row] if row >= 0 else -_LEAST for row in candidates.row_of
        ]
        return np.array([[-m / 2.0, m / 2.0] for m in values])  # [N, 2]

    def combine(self, members, weights):
        logits = [m["logits"] for m in members]
        return {"logits": ensembles.mean(logits, weights)}

    def spec(self):
        # The head is the language model's and has no options.
        return dataclasses.replace(
            super().spec(), head="candidate_ranking", head_options={}
        )

    def loss_options(self):
        return {
            "alpha": self.data.ranking_alpha,
            "beta": self.data.ranking_beta,
        }


def candidate_table(
    rows: Sequence[schemas.Schema],
    tokenized: Sequence[Sequence[Sequence[int]]],
    max_length: int,
    ids: SymbolIds,
    where: str,
) -> FeatureTable:
    """`schemas.table` of candidates whose pieces are all hidden and summed.

    Raises UserError: a candidate of more pieces than the objective sums or a
    row holds: its probability would be that of a part.
    """
    most = min(MOST_PIECES, max_length - 2)
    for schema, (_, candidate, _) in zip(rows, tokenized, strict=True):
        if len(candidate) > most:
            raise UserError(
                f"{where}: the candidate {schema.candidate!r} has "
                f"{len(candidate)} pieces, wanted at most {most}, all of which "
                "are hidden and summed; shorten it, "
                + ("raise --max_seq_length " if most < MOST_PIECES else "")
                + "or leave --ranking out"
            )
    return schemas.table(tokenized, max_length, ids)


def _candidates(examples: list[TextExample]) -> _Candidates:
    """Rows of a split: its own candidates, and a rule's where one is alone."""
    at: dict[tuple, int] = {}
    rows: list[schemas.Schema] = []

    def add(schema: schemas.Schema) -> int:
        key = (schema.key, schema.candidate.casefold())
        if key not in at:
            at[key] = len(rows)
            rows.append(schema)
        return at[key]

    parts = [schemas.find(*e.texts) for e in examples]
    row_of = [-1 if schema is None else add(schema) for schema in parts]
    for group in groups_of([schema.key for schema in rows]):
        if len(group) == 1:
            alone = rows[group[0]]
            for text in schemas.rivals(alone):
                add(dataclasses.replace(alone, candidate=text))
    return _Candidates(rows, row_of)


# 1 = the second row of the example is a rival, 0 = it repeats the first.
RIVAL = "rival"


def groups_of(keys: Sequence[Hashable]) -> list[list[int]]:
    """Indices of equal keys, in the order in which these first occur."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def pairs(keys: Sequence[Hashable], right: Sequence[bool]) -> list[tuple]:
    """Every right row with every wrong one of its group: (right, wrong).

    (row, row) for each of a group that has no pair.
    """
    row_pairs = []
    for rows in groups_of(keys):
        better = [i for i in rows if right[i]]
        worse = [i for i in rows if not right[i]]
        group_pairs = [(i, j) for i in better for j in worse]
        row_pairs += group_pairs or [(i, i) for i in rows]
    return row_pairs


def paired(table: FeatureTable, chosen: Sequence[tuple]) -> FeatureTable:
    """Examples of two rows each, the `chosen` two of the table.

    Columns of the first row, and `RIVAL` float32 [N].
    """
    first = np.array([pair[0] for pair in chosen], np.int64)  # [N]
    second = np.array([pair[1] for pair in chosen], np.int64)
    rows = np.stack([first, second], 1).reshape(-1)  # [N * 2]
    begins, ends = table.row_splits[:-1][rows], table.row_splits[1:][rows]
    kept = np.concatenate(
        [np.arange(a, b) for a, b in zip(begins, ends, strict=True)]
    )
    columns = {name: value[first] for name, value in table.columns.items()}
    return dataclasses.replace(
        table,
        token_ids=table.token_ids[kept],
        segment_ids=table.segment_ids[kept],
        row_splits=np.concatenate([[0], np.cumsum(ends - begins)]),
        columns=columns | {RIVAL: (first != second).astype(np.float32)},
        token_columns={k: v[kept] for k, v in table.token_columns.items()},
        num_options=2,
    )


def margins(scores: np.ndarray, keys: Sequence[Hashable]) -> np.ndarray:
    """How far a row is above the best other one of its group, [N].

    Above 0 for one row of a group and below 0 for its others: of equal scores
    the first is the best. NaN for a row that is alone.
    """
    scores = np.asarray(scores, np.float64)
    row_margins = np.full(len(scores), np.nan)
    least = np.finfo(np.float64).tiny
    for rows in groups_of(keys):
        if len(rows) < 2:
            continue
        values = scores[rows]
        best = int(np.argmax(values))
        highest, next_highest = values[best], np.max(np.delete(values, best))
        row_margins[rows] = np.minimum(values - highest, -least)
        row_margins[rows[best]] = max(highest - next_highest, least)
    return row_margins
