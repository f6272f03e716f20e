"""The Triton kernels, compiled for GPUs that need not be there (`make kernel`); nothing of them runs."""

import os

import pytest

from plumbline.model.attention import kernels as operator

compiles = os.environ.get("TRITON_INTERPRET") != "1" and operator.runs_triton("cuda")
pytestmark = pytest.mark.skipif(not compiles, reason="Triton is not installed, or interprets: `make kernel`")
MOST_SHARED = 99 * 1024
"""Bytes of shared memory of a program on the smallest GPU since Ampere."""
TYPES = {"begin": "*i32", "end": "*i32", "total": "*fp32", "kept": "*fp32"}
NUMBERS = {"count": "i32", "heads": "i32", "scale": "fp32"}


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("kernel", ["_forward", "_backward_query", "_backward_key"])
def test_nvidias_assembler_takes_the_kernels(kernel, capability, precision, tmp_path, monkeypatch):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from plumbline.model.attention import triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    dtype = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[precision]
    sizes = {"E": 24, "WIDE": 32, "R": triton_kernels.ROWS, "C": triton_kernels.COLUMNS}
    constants = {**sizes, "DTYPE": getattr(triton.language, dtype)}
    function = getattr(triton_kernels, kernel)
    known = {**TYPES, **NUMBERS, **dict.fromkeys(constants, "constexpr")}
    signature = {name: known.get(name, f"*{precision}") for name in function.arg_names}
    source = ASTSource(function, signature=signature, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert made.asm["cubin"]
    assert made.metadata.shared <= MOST_SHARED
