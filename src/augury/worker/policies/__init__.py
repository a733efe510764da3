"""What workers do about the hints in a plan: one module for each optimization, and how users bring their own."""

from augury.worker.policies.policy import Action, Duplicate, FetchEarly, Policy, PolicyKind, PreWarm, WakeAt, packed
from augury.worker.policies.registry import Policies

__all__ = [
    "Action",
    "Duplicate",
    "FetchEarly",
    "Policies",
    "Policy",
    "PolicyKind",
    "PreWarm",
    "WakeAt",
    "packed",
]
