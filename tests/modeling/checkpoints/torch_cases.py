"""Which kind of wrong file a case is."""

from modeling.encoders.transformer_xl import torch_names
from tests.modeling.golden import txl_golden

ENCODINGS = {kind: name for name, kind in torch_names.KINDS.items()}


def case_of(golden, name):
    """(config, state_dict, arrays of the case) of a PyTorch case."""
    cases = txl_golden.cases(golden, "pytorch.json")["cases"]
    given = cases[name]["arguments"]
    stored = txl_golden.load(golden, "pytorch_weights")
    state = {
        key: stored[f"{key}|{'x'.join(map(str, shape))}"]
        for key, shape in cases[name]["parameters"].items()
    }
    # A state_dict has what is shared under every name.
    for key in cases[name]["shared_parameters"]:
        i = int(key.split(".")[2])
        theirs = key.replace("crit.out_", "word_emb.emb_")
        if "projs" in key and given["div_val"] == 1:
            theirs = theirs.replace(f".{i}", ".0")
        state[key] = state[theirs]
    config = txl_golden.config(
        given,
        given,
        proj_share_all_but_first=given["tie_projs"][-1],
        mem_len=given["mem_len"],
        memory_start="hidden",
        encoding=ENCODINGS[given["attn_type"]],
        max_positions=given["tgt_len"] + given["mem_len"],
    )
    return config, state, txl_golden.load(golden, "pytorch")
