"""Let the scripts import each other by name, also with `python -m experiments.gaps`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
