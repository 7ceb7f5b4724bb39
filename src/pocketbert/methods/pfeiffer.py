"""Pfeiffer adapters: one bottleneck per layer of an encoder, after its feed-forward (Pfeiffer et al. 2021)."""

from typing import ClassVar

from pocketbert.methods.added import BottleneckMethod
from pocketbert.methods.base import register


@register
class Pfeiffer(BottleneckMethod):
    name: ClassVar[str] = "pfeiffer"
    description: ClassVar[str] = "one small bottleneck per layer of a pretrained encoder that stays, and a new head"
    slots: ClassVar[tuple[str, ...]] = ("after_feed_forward",)
    activation: ClassVar[str] = "relu"
    after_norm: ClassVar[bool] = True
