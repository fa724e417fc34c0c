"""The scripts of this folder import each other by name: `python -m experiments.uci` finds them as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
