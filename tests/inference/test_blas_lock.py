"""Factorisations of many small matrices use one thread of BLAS, and leave its setting as it was."""

from threadpoolctl import threadpool_info

from tggm.inference.blas_lock import blas_lock


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_inside_and_all_of_them_after():
    before = threads()
    with blas_lock():
        assert set(threads()) == {1}
    assert threads() == before
    with blas_lock(False):
        assert threads() == before
