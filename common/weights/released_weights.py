"""Names of the files that released weights lie in."""

WEIGHTS = "model.safetensors"
TORCH = "pytorch_model.bin"
H5 = "tf_model.h5"
_INDEX = ".index.json"
# In order of preference; an index names the shards beside it.
FORMS = (WEIGHTS, WEIGHTS + _INDEX, TORCH, TORCH + _INDEX, H5)
