"""A left-to-right language model -> a SavedModel."""

import os

from common import files
from modeling.checkpoints.restore import description
from serving.export.exporter import SIZES, Root, publish
from serving.generation.causal import CausalLM
from serving.generation.causal_decoder import SEGMENT
from serving.saved_model import FORMAT_VERSION
from serving.signatures.causal_lm import causal_signatures
from serving.signatures.graph_symbols import tokenizer_of
from serving.signatures.sequence import Context


def export_causal(
    output_dir: str, lm: CausalLM, model_name: str, check: bool = True
) -> str:
    """Writes a new version folder, as `exporter.export_model` does."""
    config = lm.model.config
    tokenizer = tokenizer_of(lm.vocabulary)
    root = Root("language_model", list(lm.model.variables), tokenizer)
    signatures = causal_signatures(
        Context(lm.model, None, tokenizer, None), lm.banned_ids()
    )
    name = os.path.basename(lm.vocabulary_path)
    about = {
        "format_version": FORMAT_VERSION,
        "precision": lm.model.dtype_policy.name,
        "task": "lm",
        "head": "language_model",
        "labels": [],
        "max_seq_length": config.mem_len or 1,
        "data_options": {},
        "segments": 1,
        "vocab_size": lm.vocabulary.size,
        "model_type": lm.model.config.model_type,
        "unit": lm.vocabulary.unit,
        "vocabulary_sha256": lm.vocabulary.sha256,
        "mem_len": config.mem_len or 0,
        "prompt_segment": SEGMENT,
        "sizes": {name: getattr(config, name) for name in SIZES},
    }
    if lm.weights:
        about["weights"] = description(lm.weights)
    assets = {name: files.read_bytes(lm.vocabulary_path)}
    return publish(
        output_dir, root, signatures, assets, about, model_name, check
    )
