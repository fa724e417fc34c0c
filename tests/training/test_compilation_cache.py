import os
import subprocess
import sys

import pytest

from tggm.training.compilation_cache import use_compilation_cache

SCRIPT = """
import sys, jax, jax.numpy as jnp
jax.jit(lambda x: x + 1)(1.0)  # the cache may be switched on after something was compiled
from tggm.training.compilation_cache import use_compilation_cache
use_compilation_cache(sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x.T))(jnp.ones((5, 5)))
"""


def test_programs_are_stored_privately(tmp_path):
    folder = tmp_path / "new" / "cache"
    subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], check=True)
    assert list(folder.glob("*-cache"))
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of this kind exist on POSIX only")
def test_shared_folder_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"writable by you alone, .* its mode is 0777"):
        use_compilation_cache(tmp_path)
