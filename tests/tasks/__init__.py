"""Tests of tasks: reading, cutting, checking, and the built-in sources."""
