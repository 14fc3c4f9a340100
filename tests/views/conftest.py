"""A browser for the tests of pages."""

from collections.abc import Iterator

import pytest
from browsing import Browser, start_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with start_browser(tmp_path_factory.mktemp("pages")) as browser:
        yield browser
