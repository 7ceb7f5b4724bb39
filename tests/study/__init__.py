"""Tests of studies: the statistics, and what is built on them."""
