"""The variant of XLNet: what differs of its first weights."""

import numpy as np
import tf_keras

from modeling.checkpoints.names import named_variables
from modeling.encoders.xlnet.backbone import XLNetModel
from studies.xlnet_variants import SCALE, PositionsModel, PositionsXLNet

SIZES = dict(vocab_size=11, d_model=6, n_layer=2, n_head=2, d_head=5, d_inner=7)


def test_only_kernels_of_positions_begin_larger():
    config = PositionsXLNet(**SIZES, mem_len=3)
    drawn = []
    for build in (XLNetModel, PositionsModel):
        tf_keras.utils.set_random_seed(3)
        drawn.append(named_variables(build(config)))
    plain, variant = drawn
    assert plain.keys() == variant.keys()
    larger = {
        n for n in plain if np.any(plain[n].numpy() != variant[n].numpy())
    }
    assert len(larger) == 2 and all("/r/kernel" in name for name in larger)
    for name in larger:
        np.testing.assert_allclose(
            variant[name].numpy(), plain[name].numpy() * SCALE, rtol=1e-6
        )
