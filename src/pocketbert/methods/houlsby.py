"""Houlsby adapters: a bottleneck after each sublayer of a pretrained encoder (Houlsby et al. 2019)."""

from typing import ClassVar

from pocketbert.methods.added import BottleneckMethod
from pocketbert.methods.base import register


@register
class Houlsby(BottleneckMethod):
    name: ClassVar[str] = "houlsby"
    description: ClassVar[str] = "two small bottlenecks per layer of a pretrained encoder that stays, and a new head"
    slots: ClassVar[tuple[str, ...]] = ("after_attention", "after_feed_forward")
    activation: ClassVar[str] = "swish"
    after_norm: ClassVar[bool] = False
