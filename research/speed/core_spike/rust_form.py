"""The piece in Rust, called by ctypes."""

import ctypes

import numpy as np
from scipy.linalg import cython_blas


def _blas(name):
    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def load(path):
    """The class `Rows` of a built library."""
    library = ctypes.CDLL(str(path))
    pointer, number = ctypes.c_void_p, ctypes.c_double
    library.rows_new.restype = pointer
    library.rows_new.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_size_t] + [pointer] * 4
    library.rows_direction.argtypes = [pointer, pointer, pointer]
    library.rows_aim.argtypes = [pointer, number]
    library.rows_move.argtypes = [pointer, number, number]
    for name in ("rows_free", "rows_curvature", "rows_pull", "rows_read"):
        getattr(library, name).argtypes = [pointer] * {"rows_free": 1, "rows_read": 4}.get(name, 2)

    class Rows:
        def __init__(self, columns, x, z, residual):
            self.columns = columns
            self.R, self.m = columns.shape
            data = [a.ctypes.data for a in (columns, x, z, residual)]
            self.self = library.rows_new(_blas("dsyrk"), _blas("dgemv"), self.m, self.R, *data)
            self.longest = (ctypes.c_double * 2)()

        def __del__(self):
            library.rows_free(self.self)

        def curvature(self):
            out = np.empty((self.R, self.R))
            library.rows_curvature(self.self, out.ctypes.data)
            return out

        def pull(self):
            out = np.empty(self.R)
            library.rows_pull(self.self, out.ctypes.data)
            return out

        def direction(self, dw):
            library.rows_direction(self.self, dw.ctypes.data, self.longest)
            return self.longest[0], self.longest[1]

        def aim(self, mu):
            library.rows_aim(self.self, mu)

        def move(self, primal, dual):
            library.rows_move(self.self, primal, dual)

        def _read(self):
            x, z, r = np.empty((2, self.m)), np.empty((2, self.m)), np.empty(self.m)
            library.rows_read(self.self, x.ctypes.data, z.ctypes.data, r.ctypes.data)
            return x, z, r

        x = property(lambda self: self._read()[0])
        z = property(lambda self: self._read()[1])
        residual = property(lambda self: self._read()[2])

    return Rows
