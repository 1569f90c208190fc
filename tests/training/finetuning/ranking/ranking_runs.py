"""A toy collection and its ranking."""

from data.text.tokenizer import Tokenizer
from tests.training.finetuning.ranking import toy
from training.finetuning.ranking.run import RankingRun


def contents(folder):
    """Bytes of what a run gives its user."""
    paths = [*(folder / "runs").iterdir(), folder / "candidates.run"]
    paths += [folder / n for n in ("results.json", "per_query.tsv")]
    return {p.name: p.read_bytes() for p in paths}


def rank(folder, spiece, said=None, **changes):
    options = toy.options(folder, **changes)
    said = [] if said is None else said
    return RankingRun(options, Tokenizer(spiece), said.append)()
