"""The model that comes with Plumbline; `make pretrained` makes it from `pretrained/params.yaml`."""

from pathlib import Path

NAME = "pretrained"
"""Name of the shipped model in `--model` and `train.start_from`."""
PACKAGE = Path(__file__).parent / "package"
"""The model package, for predicting."""
MODEL = Path(__file__).parent / "model"
"""The float32 network before pruning, for training on."""
FIELDS = Path(__file__).parent / "fields"
"""The package that `plumbline restore` uses; `make pretrained-restoration` makes it."""
