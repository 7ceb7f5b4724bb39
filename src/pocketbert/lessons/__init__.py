"""Lessons: pieces of the theory, each checked by running it. One file per lesson, in a registry that tests walk."""

from pocketbert.lessons.lesson import Check, Lesson, LessonPage
from pocketbert.lessons.pages import write_pages
from pocketbert.lessons.registry import get_lesson, list_lessons, run_lesson

__all__ = ["Check", "Lesson", "LessonPage", "get_lesson", "list_lessons", "run_lesson", "write_pages"]
