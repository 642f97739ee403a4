"""Settings that OpenBLAS and libgomp read when they are loaded; muster's programs begin anew for them."""
import ctypes
import os

from muster import _start

CORE = "OPENBLAS_CORETYPE"


def is_loaded(library):
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return library in maps.read()


def ask_child():
    """The core that OpenBLAS should take, from a child that loads it: it chooses once per process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL("libopenblas.so.0", ctypes.RTLD_GLOBAL)
            os.write(write, _start.better_blas_core().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        core = answer.read().decode()
    os.waitpid(child, 0)
    return core


def choose_blas_core():
    if CORE in os.environ or is_loaded("/libopenblas"):
        return
    core = ask_child()
    if core:
        os.environ[CORE] = core


def limit_spinning():
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(_start.SPIN_COUNT_VARIABLE, _start.SPIN_COUNT)


choose_blas_core()
limit_spinning()
