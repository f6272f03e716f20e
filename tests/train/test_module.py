from types import SimpleNamespace

import torch

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.network import new_spec
from plumbline.train.module import Optimisation
from tests.train.made import make_params


def test_the_module_is_told_where_its_weights_are_and_takes_the_teacher_there():
    """FSDP moves the weights alone: validation, alarms and the teacher would go by the CPU."""
    params = make_params()
    model, teacher = (Diagnosis(new_spec(params.model, 24)) for _ in range(2))
    module = Optimisation(model, params.train, params.train, teacher, 1.0)
    module.trainer = SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta")))
    assert module.device.type == "cpu"
    module.on_fit_start()
    assert module.device.type == "meta"
    assert {value.device.type for value in (*teacher.parameters(), *teacher.buffers())} == {"meta"}
