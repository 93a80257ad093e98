"""Fused kernels without a GPU: Triton's interpreter runs them on tensors of the CPU."""

import os

import numpy as np
import pytest


def device_for_kernels():
    """Where kernels run here: "cuda", or "cpu" by the interpreter; a test without Triton skips."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined, Triton's own as well
    pytest.importorskip("triton", reason="Triton is not installed (it comes with torch for CUDA)")
    if device == "cuda":
        return device
    _read_scalars_of_new_numpy()
    return device


def _read_scalars_of_new_numpy():
    """NumPy no longer takes an array of one entry for a number, as the interpreter does."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor
    if getattr(original, "reads_scalars", False):
        return

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(np.ravel(self.handle.data)[0]))

    patched.reads_scalars = True
    interpreter._patch_lang_tensor = patched
