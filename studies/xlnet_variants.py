"""An XLNet whose first weights differ from the released ones' in one thing.

For the study of the unigram plateau (`studies.pretrain_variant`). What it writes is
a folder of XLNet.
"""

from modeling.encoders.xlnet.backbone import XLNetModel
from modeling.encoders.xlnet.config import XLNetConfig

SCALE = 12.0  # of the deviation of W_kR over `init_std`


class PositionsXLNet(XLNetConfig):
    """XLNet whose kernels of positions (W_kR) begin `SCALE` times as large."""

    model_type = "xlnet_positions"


class PositionsModel(XLNetModel):
    """The model of `PositionsXLNet`."""

    def build_variables(self, *layers):
        super().build_variables(*layers)
        for block in self.blocks:
            kernel = block.rel_attn.kernels["r"]
            kernel.assign(kernel * SCALE)
