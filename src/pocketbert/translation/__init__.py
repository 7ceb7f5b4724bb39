"""Translation: how a decoder's steps become sentences."""

from pocketbert.translation.decoding import Hypothesis, beam_search, greedy

__all__ = ["Hypothesis", "beam_search", "greedy"]
