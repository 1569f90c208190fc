"""How XLNet's variables are updated, by canonical name."""

_LAYER = r"model/transformer/layer_(?P<layer>\d+)/"

# (pattern of the whole name, decayed, place). The first match counts.
# place: "embedding"; "layer" or "bias_of_layer" (the number is in the name, the
# original's layer-wise rates leave out the second); "top" = above all layers.
RULES = (
    (r"model/transformer/word_embedding/lookup_table", True, "embedding"),
    (r"model/transformer/mask_emb/mask_emb", True, "embedding"),
    (_LAYER + r"rel_attn/[qkvor]/kernel", True, "layer"),
    (_LAYER + r"rel_attn/r_[wrs]_bias", True, "bias_of_layer"),
    (_LAYER + r"rel_attn/seg_embed", True, "bias_of_layer"),
    (_LAYER + r"ff/layer_[12]/kernel", True, "layer"),
    (_LAYER + r"ff/layer_[12]/bias", False, "layer"),
    (_LAYER + r"(rel_attn|ff)/LayerNorm/(gamma|beta)", False, "layer"),
    # Shared by all layers, or stacked over them in the original's files.
    (r"model/transformer/(r_[wrs]_bias|seg_embed)", True, "top"),
)
