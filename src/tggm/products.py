"""Products of matrices with all their digits, and programs that compile quickly on GPUs.

Accelerators multiply float32 matrices in fewer digits unless a product asks for more: NVIDIA's round the
factors to 10 bits (TensorFloat-32). Engines live on differences of such products: without this, on an H200,
EP converges on four rows in ten of a posterior with 100 units and 5 outputs, and its log Z errs by a nat and
a half (benchmarks/inference_gpu.py).
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

# A compiler for GPUs writes and times dozens of kernels for each product, and weighs how to fuse each sum
# with what shares it. A library's products and plain fusion run as fast here, and on an H200 the training
# program of 100 units and ten classes takes 3 s to compile instead of 24, scores half a second, not 10.
QUICKLY = {"xla_gpu_enable_triton_gemm": False, "xla_disable_hlo_passes": "triton-softmax-rewriter"}

P = ParamSpec("P")
T = TypeVar("T")


def full_precision(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, whose products all have the digits of their factors.

    A product keeps what it asked for when it is differentiated. Rules of `jax.custom_jvp` and `custom_vjp`
    are traced later, on their own: one that multiplies matrices needs this decorator, too.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return call
