import pytest

from plumbline.fields.prepare.covariance import fit_covariance


@pytest.fixture(scope="module", autouse=True)
def fitted_once():
    """The covariance of the same points is fitted once for all tests: it takes as long as the windows."""
    fits = {}

    def fit(observations, *settings):
        key = (*settings, *(values.tobytes() for values in vars(observations).values()))
        if key not in fits:
            fits[key] = fit_covariance(observations, *settings)
        return fits[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plumbline.fields.restore.plan.fit_covariance", fit)
        yield
