"""Writes tiny folders of heads that others train, with their outputs.

Needs torch and transformers: `python tests/golden/make_hf_heads.py FOLDER
[SEED]`. Each folder has `config.json`, `model.safetensors` or
`pytorch_model.bin`, and `outputs.npz` (inputs as `in/NAME`, what the PyTorch
model gave as `out/NAME`).
"""

import os
import sys

import numpy as np

B, T, C = 2, 7, 2
_BERT = dict(
    vocab_size=23,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=16,
)
SIZES = {
    "XLNet": dict(vocab_size=23, d_model=8, n_layer=2, n_head=2, d_inner=12),
    "Bert": _BERT,
    "Albert": _BERT | dict(embedding_size=6),
    "ModernBert": _BERT
    | dict(
        local_attention=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
}
_NAMES = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
_TAGS = {"id2label": {0: "O", 1: "B-x", 2: "I-x", 3: "B-y"}}
_SEQUENCE, _TOKEN, _SPAN = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
)
# Folder -> (family, class, changes of the configuration, file).
_ZIP, _SAFE = "pytorch_model.bin", "model.safetensors"
CASES = {
    "xlnet_sequence": ("XLNet", _SEQUENCE, _NAMES, _ZIP),
    "xlnet_first": (
        "XLNet",
        _SEQUENCE,
        _NAMES | {"summary_type": "first"},
        _SAFE,
    ),
    "xlnet_token": ("XLNet", _TOKEN, _TAGS, _SAFE),
    "xlnet_span": ("XLNet", _SPAN + "Simple", {}, _ZIP),
    "xlnet_beams": (
        "XLNet",
        _SPAN,
        {"start_n_top": 3, "end_n_top": 2},
        _SAFE,
    ),
    "bert_sequence": ("Bert", _SEQUENCE, _NAMES, _ZIP),
    "bert_multi_label": (
        "Bert",
        _SEQUENCE,
        _NAMES | {"problem_type": "multi_label_classification"},
        _SAFE,
    ),
    "bert_regression": ("Bert", _SEQUENCE, {"num_labels": 1}, _SAFE),
    "bert_choice": ("Bert", "ForMultipleChoice", {}, _SAFE),
    "bert_token": ("Bert", _TOKEN, _TAGS, _ZIP),
    "bert_span": ("Bert", _SPAN, {}, _SAFE),
    "albert_sequence": ("Albert", _SEQUENCE, _NAMES, _SAFE),
    "albert_token": ("Albert", _TOKEN, _TAGS, _SAFE),
    "albert_span": ("Albert", _SPAN, {}, _ZIP),
    "modernbert_sequence": ("ModernBert", _SEQUENCE, _NAMES, _ZIP),
    "modernbert_mean": (
        "ModernBert",
        _SEQUENCE,
        _NAMES | {"classifier_pooling": "mean"},
        _SAFE,
    ),
    "modernbert_token": ("ModernBert", _TOKEN, _TAGS, _SAFE),
    "modernbert_span": ("ModernBert", _SPAN, {}, _SAFE),
    "bert_next_sentence": ("Bert", "ForNextSentencePrediction", {}, _SAFE),
}


def make(folder: str, name: str, seed: int = 0) -> None:
    """Writes one folder: random weights, inputs and outputs."""
    import torch
    import transformers

    family, kind, changes, file = CASES[name]
    config = getattr(transformers, family + "Config")(
        **(SIZES[family] | changes)
    )
    torch.manual_seed(seed + len(name))
    model = getattr(transformers, family + kind)(config).eval()
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            torch.nn.init.normal_(parameter, std=0.3)
            if "norm.weight" in key.lower():
                parameter.add_(1.0)
    os.makedirs(folder, exist_ok=True)
    model.save_pretrained(folder)
    if file == _ZIP:
        os.remove(os.path.join(folder, _SAFE))
        torch.save(model.state_dict(), os.path.join(folder, _ZIP))
    for beside in os.listdir(folder):
        if beside not in (file, "config.json"):
            os.remove(os.path.join(folder, beside))
    inputs = _inputs(name, family, seed)
    with torch.no_grad():
        outputs = model(**{k: torch.tensor(v) for k, v in inputs.items()})
    arrays = {
        k: v.numpy() for k, v in outputs.items() if isinstance(v, torch.Tensor)
    }
    np.savez_compressed(
        os.path.join(folder, "outputs.npz"),
        **{f"in/{k}": v for k, v in inputs.items()},
        **{f"out/{k}": v for k, v in arrays.items()},
    )


def _inputs(name: str, family: str, seed: int) -> dict[str, np.ndarray]:
    """Ids of two rows, the second shorter; padding where CLS is not."""
    random = np.random.default_rng([seed, len(name)])
    shape = (B, C, T) if name.endswith("choice") else (B, T)
    ids = random.integers(5, 23, shape)
    mask = np.ones(shape, np.int64)
    # XLNet's `first` counts padding: its rows are whole.
    if name != "xlnet_first":
        left = family == "XLNet"
        pad = slice(0, 2) if left else slice(T - 2, T)
        mask[-1, ..., pad], ids[-1, ..., pad] = 0, 0
    found = {"input_ids": ids, "attention_mask": mask}
    if family != "ModernBert":
        kinds = np.zeros(shape, np.int64)
        kinds[..., 3:] = 1
        found["token_type_ids"] = kinds
    return found


if __name__ == "__main__":
    for case in CASES:
        make(
            os.path.join(sys.argv[1], case),
            case,
            int(sys.argv[2]) if len(sys.argv) > 2 else 0,
        )
