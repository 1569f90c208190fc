"""What `modeling.checkpoints.hf` asks of an encoder about its folders.

A name table says for every canonical name (theirs, is it a transposed dense
kernel). Heads of an encoder may have names of their own; a head without any
cannot be written.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from common.errors import UserError
from common.heads import ENCODER, HEADS, SUMMARY_SCOPE

Names = dict[str, tuple[str, bool]]
# Head -> scope of its last layer.
LOGITS = {
    "classification": "model/classification/logit",
    "regression": "model/regression/logit",
    "multiple_choice": "logits/dense",
    "token_classification": "model/token_classification/logit",
}


@dataclasses.dataclass(frozen=True)
class Summary:
    """How a head makes one vector of a sequence, see `SequenceSummary`."""

    summary_type: str | None  # None = not known
    use_proj: bool  # whether the weights have a projection
    pooling: str  # "" = not known


class HuggingFaceNames:
    """Base of the encoders' `HuggingFace` classes."""

    class_prefix: str
    ours: str  # scope of our encoder
    scope: str  # of their encoder in a model with a head
    around: Names  # below these two scopes
    layer: Names  # below those of a layer
    layer_scope: str  # of a layer of theirs, by its number
    # (a stored copy, what it must be equal to), their names
    ties: tuple[tuple[str, str], ...] = ()
    buffers: tuple[str, ...] = ()  # ends of names that hold no weights
    # canonical name of a weight that only a summary with a projection has
    projection: str = f"{SUMMARY_SCOPE}/summary/kernel"
    # key of their `config.json` -> (our name of the symbol, what their class
    # takes without the key)
    token_ids: Mapping[str, tuple[str, int]] = {"pad_token_id": ("pad", 0)}

    def names(self, config: Any) -> Names:
        """Of the encoder's variables."""
        tables = [("", "", self.around)]
        tables += [(*pair, self.layer) for pair in self.layer_scopes(config)]
        return {
            f"{self.ours}{ours}{name}": (
                f"{self.scope}{theirs}{their_name}",
                flip,
            )
            for ours, theirs, table in tables
            for name, (their_name, flip) in table.items()
        }

    def layer_scopes(self, config: Any) -> Iterator[tuple[str, str]]:
        """(ours, theirs) of every layer that has weights."""
        for i in range(config.n_layer):
            yield f"layer_{i}/", self.layer_scope.format(i)

    def head_names(self, head: str) -> Names:
        """Of the variables of a head; those that a model lacks do not matter."""
        return {} if head == ENCODER else HEADS[head].hf_names

    def class_kinds(self, head: str) -> tuple[str, ...]:
        """Ends of their class names that hold a head; the first is written."""
        return ("Model",) if head == ENCODER else (HEADS[head].hf_class,)

    def class_name(self, head: str, arrays: Any = ()) -> str:
        """Their class for a head with these canonical names."""
        del arrays
        return self.class_prefix + self.class_kinds(head)[0]

    def old_names(self, name: str) -> str:
        """Today's form of a name of an older file of theirs."""
        return name

    def from_theirs(
        self, arrays: dict[str, np.ndarray], config: Any, path: str
    ) -> None:
        """Changes arrays by canonical name from their shapes to ours."""

    def to_theirs(self, arrays: dict[str, np.ndarray], config: Any) -> None:
        """The opposite of `from_theirs`."""

    def check_complete(self, arrays: Mapping[str, Any], head: str) -> None:
        """Raises UserError: their class has weights that are not there.

        They would be drawn at random. `arrays` are by canonical name.
        """

    def read_config(self, theirs: dict[str, Any], path: str) -> Any:
        """Their `config.json` as ours."""
        raise NotImplementedError

    def write_config(self, config: Any) -> dict[str, Any]:
        """Ours as theirs."""
        raise NotImplementedError

    def write_token_ids(
        self, theirs: dict[str, Any], symbols: Mapping[str, int]
    ) -> None:
        """Puts ids of symbols into their `config.json`, where it is wrong.

        `symbols` has ids by name, below 0 = none; {} = no vocabulary is known.
        """
        for key, (name, default) in self.token_ids.items():
            written_id = theirs.get(key, default)
            wanted = symbols.get(name, written_id)
            # Theirs may be a list of several, which stays as it is.
            one = isinstance(wanted, int)
            if one and not 0 <= wanted < theirs["vocab_size"]:
                wanted = None  # theirs asks for a row of the embedding
            if wanted != written_id:
                theirs[key] = wanted

    def write_task(self, theirs: dict[str, Any]) -> None:
        """What a fine-tuned model's `config.json` needs besides."""

    def write_summary(
        self, theirs: dict[str, Any], summary: Summary
    ) -> list[str]:
        """Puts a head's summary into their `config.json`.

        Raises UserError: their class makes its vector in another way.
        """
        raise NotImplementedError

    def read_summary(self, theirs: dict[str, Any], path: str) -> dict[str, Any]:
        """Options of our heads that their `config.json` tells.

        Raises UserError: a summary that we have not.
        """
        del theirs, path
        return {}


class FileNames(HuggingFaceNames):
    """Base of those whose configuration file is Hugging Face's own."""

    config_class: type

    def head_shapes(
        self, arrays: dict[str, np.ndarray], config: Any
    ) -> Iterator[tuple[str, list[int], list[int]]]:
        """(name, our shape, theirs) of arrays with an axis per head."""
        raise NotImplementedError

    def from_theirs(self, arrays, config, path):
        for name, ours, _ in self.head_shapes(arrays, config):
            if arrays[name].size != np.prod(ours):
                raise UserError(
                    f"{path}: `{name}` has shape {list(arrays[name].shape)}, "
                    f"wanted {ours} by its config"
                )
            arrays[name] = arrays[name].reshape(ours)

    def to_theirs(self, arrays, config):
        for name, _, theirs in self.head_shapes(arrays, config):
            arrays[name] = np.reshape(arrays[name], theirs)

    def read_config(self, theirs, path):
        try:
            return self.config_class.from_dict(theirs)
        except UserError as e:
            raise UserError(f"{path}: {e}") from e

    def write_config(self, config):
        return json.loads(config.to_json())


def dense(
    scope: str, theirs: str, bias: bool = True, flip: bool = True
) -> Names:
    """Kernel and bias of a dense layer."""
    names = {f"{scope}/kernel": (f"{theirs}.weight", flip)}
    if bias:
        names[f"{scope}/bias"] = (f"{theirs}.bias", False)
    return names


def norm(scope: str, theirs: str, bias: bool = True) -> Names:
    """Gain and bias of a layer normalisation."""
    names = {f"{scope}/gamma": (f"{theirs}.weight", False)}
    if bias:
        names[f"{scope}/beta"] = (f"{theirs}.bias", False)
    return names
