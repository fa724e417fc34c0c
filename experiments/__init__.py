"""Scripts that import each other by name; this makes `python -m experiments.defaults` work as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
