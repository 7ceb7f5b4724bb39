"""Every lesson, run once for all tests of them."""

import time

import pytest

from pocketbert.lessons import LessonPage, list_lessons


@pytest.fixture(scope="session")
def timed_pages() -> dict[str, tuple[LessonPage, float]]:
    """Each lesson's page, and how many seconds of this process it took."""
    found = {}
    for name, lesson in list_lessons().items():
        start = time.process_time()
        found[name] = lesson.run(), time.process_time() - start
    return found


@pytest.fixture(scope="session")
def pages(timed_pages) -> dict[str, LessonPage]:
    return {name: page for name, (page, _) in timed_pages.items()}
