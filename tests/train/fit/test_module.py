from types import SimpleNamespace

import torch

from plumbline.model.diagnosis import Diagnosis
from plumbline.train.fit.module import Optimisation
from tests.train.made import make_model, make_params


def test_the_teacher_is_taken_to_where_the_weights_are_and_back_after_training():
    """The scan of `compress` asks it on the CPU."""
    params, places = make_params(), []

    class Teacher(Diagnosis):
        def to(self, device):
            places.append(torch.device(device).type)

    model = make_model()
    module = Optimisation(model, params.train, params.train, teacher=Teacher(model.network.spec), distil_weight=1.0)
    module.to("meta")
    module.on_fit_start()
    module.on_fit_end()
    assert places == ["meta", "cpu"]


def test_each_process_and_each_place_in_the_run_has_a_dropout_of_its_own():
    """Which can be drawn again: a run that is gone on with draws as if it had not been cut."""
    params = make_params()
    module = Optimisation(make_model(), params.train, params.train)

    def dropped(rank=0, epoch=0, batch=0):
        module.trainer = SimpleNamespace(global_rank=rank, current_epoch=epoch, num_training_batches=5, optimizers=[])
        module.on_train_batch_start(None, batch)
        return tuple(torch.nn.functional.dropout(torch.ones(64)).tolist())

    with torch.random.fork_rng(devices=[]):
        places = [{}, {"rank": 1}, {"rank": 2}, {"epoch": 1}, {"batch": 1}]
        drawn = [dropped(**place) for place in places]
        assert [dropped(**place) for place in places] == drawn
    assert len(set(drawn)) == len(places)
