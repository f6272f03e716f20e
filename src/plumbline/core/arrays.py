"""Name the types of arrays that modules of every step handle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]
"""Array of floating-point numbers, whatever their size."""
Array = NDArray[np.float64]
"""Array of float64."""
Index = NDArray[np.intp]
"""Array of row numbers."""
Mask = NDArray[np.bool_]
"""Array of truth values."""
