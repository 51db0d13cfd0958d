import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cuda_device  # noqa: E402, F401  (before torch)
