"""Full precision of matrix products, and compiler options for GPUs.

Accelerators multiply float32 matrices in fewer digits by default: NVIDIA GPUs round the factors to 10 bits
(TensorFloat-32). Engines subtract such products: without full precision, on an H200, EP converges on four
rows in ten of a posterior with 100 units and 5 outputs, and its log Z errs by 1.5 nats.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

# The GPU compiler generates and times dozens of kernels for each product. Library products and plain fusion
# run as fast here, and on an H200 the training program of 100 units and ten classes compiles in 3 s instead
# of 24, scores in 0.5 s instead of 10.
GPU_COMPILER_OPTIONS = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_disable_hlo_passes": "triton-softmax-rewriter",
}

P = ParamSpec("P")
T = TypeVar("T")


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Compute all matrix products of a function in full precision.

    Derivatives of a product keep its precision. Rules of `jax.custom_jvp` and `custom_vjp` are traced
    separately: a rule that multiplies matrices needs this decorator, too.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return call
