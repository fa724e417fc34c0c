"""The folder of compiled programs, and processes that were forked."""

import os
import subprocess
import sys

import pytest

from tggm.training.compilation_cache import prune, use_compilation_cache


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"writable by you alone, .* its mode is 0777"):
        use_compilation_cache(tmp_path)


SCRIPT = """
import jax, numpy as np
jax.jit(lambda x: x + 1)(1.0)  # the cache can be enabled after a compilation
from tggm import TGGMRegressor
TGGMRegressor(2, features=None, n_members=1, max_epochs=1).fit(np.eye(8), np.arange(8.0))
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.parametrize("given", [None, "TGGM_COMPILATION_CACHE", "JAX_COMPILATION_CACHE_DIR"])
def test_a_fit_stores_its_programs_unless_configured_otherwise(tmp_path, given):
    clean = {k: v for k, v in os.environ.items() if "COMPILATION_CACHE" not in k}
    values = {"TGGM_COMPILATION_CACHE": "off", "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "other")}
    env = clean | {"XDG_CACHE_HOME": str(tmp_path)} | {k: v for k, v in values.items() if k == given}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, check=True, capture_output=True, text=True)
    programs = [*(tmp_path / "tggm").rglob("*-cache")]
    assert {path.parent.stat().st_mode & 0o777 for path in programs} == (set() if given else {0o700})
    assert done.stdout.startswith(str(tmp_path)) == (given != "TGGM_COMPILATION_CACHE")


def test_the_least_recently_used_programs_are_deleted(tmp_path):
    for age, name in enumerate("abc"):
        path = tmp_path / f"{name}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "c-atime").write_bytes(b"")  # read just now
    prune(tmp_path, 200)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["a-cache", "c-cache"]


FORK = """
import os
from tggm.training.compilation_cache import require_unforked
require_unforked()
if os.fork() == 0:
    try:
        require_unforked()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
"""


def test_a_forked_process_raises_instead_of_hanging():
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True)
    assert "multiprocessing.get_context('spawn')" in done.stdout
