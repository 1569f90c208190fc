"""A small plan of a TPU."""

from benchmarks.tpu import lowering as tpu_lowering
from flags.plan_flags import PlanOptions
from modeling.encoders.xlnet.config import XLNetConfig

OPTIONS = PlanOptions(
    config=XLNetConfig(
        vocab_size=50, d_model=8, n_layer=2, n_head=2, d_head=4, d_inner=12
    ),
    task="pretrain",
    rows=2,
    seq_len=16,
    mem_len=6,
    num_predict=3,
    precision="float32",
    recompute_layers=False,
    topology="v3",
    search_batch=False,
    full_step=True,
    pod_cores=8,
    train_steps=1000,
    json_output=None,
)
PROGRAM = tpu_lowering.Compiled(
    flops=1e12,
    bytes_accessed=9e9,
    optimal_seconds=-0.95,
    argument_bytes=2_000_000_000,
    output_bytes=2_000_000_000,
    alias_bytes=2_000_000_000,
    temporary_bytes=1_500_000_000,
    code_bytes=10_000_000,
    compile_seconds=3.0,
)
