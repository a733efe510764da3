"""Tools to test workflows and Augury itself without a platform: a virtual one, in which time costs nothing."""

from augury.testing.adversary import Adversary, Mishap
from augury.testing.clock import VirtualClock
from augury.testing.virtual import Deadlock, InvocationSpan, PrewarmSpan, TaskSpan, VirtualPlatform, VirtualRun

__all__ = [
    "Adversary",
    "Deadlock",
    "InvocationSpan",
    "Mishap",
    "PrewarmSpan",
    "TaskSpan",
    "VirtualClock",
    "VirtualPlatform",
    "VirtualRun",
]
