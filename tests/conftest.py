"""Tests keep what runs teach to themselves."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or changes the history of the user who runs it; processes that tests start inherit this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUGURY_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        yield
