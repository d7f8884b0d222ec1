"""JupyterLab as `make lab` starts it is for this machine and for who has its token."""

import urllib.error
import urllib.request

import pytest


@pytest.mark.parametrize("path", ["api/contents", "api/sessions", "api/kernels"])
def test_without_its_token_it_gives_nothing(lab, path):
    assert lab.address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{lab.address}/{path}", timeout=300)
    refused.value.close()
    assert refused.value.code == 403
