"""Programs that a module's tests run on a simulated GPU, each in a fork of one process."""

import pytest
from forked_runs import Runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()
