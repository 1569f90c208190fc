"""Names of Transformer-XL's variables, and the optimizer's groups."""

SCOPE = "transformer/"
LAYER_SCOPE = SCOPE + r"layer_(?P<layer>\d+)/"
_SOFTMAX = SCOPE + r"adaptive_softmax/(cutoff_\d+/)?"
BIASES = ("r_w_bias", "r_r_bias")

# (pattern of the whole name, decayed, place), as those of XLNet.
GROUPS = (
    (SCOPE + r"adaptive_embed/(cutoff_\d+/)?lookup_table", True, "embedding"),
    (SCOPE + r"adaptive_embed/(cutoff_\d+/)?proj_W", True, "embedding"),
    (LAYER_SCOPE + r"rel_attn/[qkvor]/kernel", True, "layer"),
    (LAYER_SCOPE + r"rel_attn/r_[wr]_bias", True, "bias_of_layer"),
    (LAYER_SCOPE + r"((rel_attn/)?r_emb|rel_attn/r_bias)", True, "layer"),
    (LAYER_SCOPE + r"ff/layer_[12]/kernel", True, "layer"),
    (LAYER_SCOPE + r"ff/layer_[12]/bias", False, "layer"),
    (LAYER_SCOPE + r"(rel_attn|ff)/LayerNorm/(gamma|beta)", False, "layer"),
    (SCOPE + r"r_[wr]_bias", True, "top"),
    (_SOFTMAX + r"(proj|cluster_W)", True, "top"),
    (_SOFTMAX + r"(bias|b|cluster_b)", False, "top"),
)
