"""What users give a client, checked, and what takes the place of what they leave out.

Bad input gets an error that names the setting, says what it must be, and shows what was given.
"""

import functools
import logging
import os
from collections.abc import Iterable
from typing import Any, Final

from augury.config import CACHE_BYTES, Resources, ResultsConfig, StorageConfig, but_not, is_number, is_whole
from augury.errors import DefinitionError, PlanError, StorageError
from augury.metrics.history.history import History, open_history
from augury.observation import Observer
from augury.plan.model import PlatformModel
from augury.plan.plan import Plan
from augury.run.care import LEAST_LEASE_S
from augury.storage.opening import open_storage
from augury.trust.folders import state_folder
from augury.trust.sources import TOKEN_VARIABLE, checked_token

_log = logging.getLogger(__name__)

_FIRST_ANSWER_S: Final = 5.0
"""How long Redis may take for its first answer: it says by then that it is loading, or busy with somebody's script."""

_CACHE_VARIABLE: Final = "AUGURY_CACHE_BYTES"
_MOST_CACHE_BYTES: Final = 2**62


def check_address(setting: str, address: object) -> None:
    """Refuse what is no address of Redis or of a gateway."""
    if address is not None and not (isinstance(address, str) and address):
        raise DefinitionError(f"Client({setting}=…) must be an address, as a str that is not empty, not {address!r}")


def chosen_token(token: str | None, gateway: str | None) -> str:
    """What to show at the gateway: what was given, or else the environment says."""
    if token or gateway is None:
        return checked_token(token or "", "Client(token=…)")
    return checked_token(os.environ.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE)


def check_redis(address: str, patience_s: float) -> None:
    """Refuse a Redis that does not answer, or does not keep what it is given.

    On a connection of its own: what is asked later may take longer.
    """
    storage = open_storage(StorageConfig(redis=address, patience_s=patience_s, timeout_s=_FIRST_ANSWER_S))
    try:
        storage.ping()
    finally:
        storage.close()


def check_care(lease_s: object, restarts: object, late_factor: object, most_memory_mb: object) -> None:
    """Refuse wrong settings of how runs look after their workers."""
    if not is_number(lease_s, least=LEAST_LEASE_S):
        raise DefinitionError(
            f"Client(lease_s=…) must be a number of seconds, at least {LEAST_LEASE_S:g}, {but_not(lease_s)}"
        )
    if not is_whole(restarts, least=0):
        raise DefinitionError(f"Client(restarts=…) must be a whole number of at least 0, {but_not(restarts)}")
    if late_factor is not None and not is_number(late_factor, least=1):
        raise DefinitionError(f"Client(late_factor=…) must be a number of at least 1, or None, {but_not(late_factor)}")
    if most_memory_mb is not None and not is_whole(most_memory_mb, least=1):
        raise DefinitionError(
            f"Client(most_memory_mb=…) must be a whole number of at least 1, {but_not(most_memory_mb)}"
        )


def check_planner(planner: object, where: str) -> None:
    """Refuse what plans nothing."""
    has_name = isinstance(getattr(planner, "name", None), str)
    if isinstance(planner, type) or not has_name or not callable(getattr(planner, "plan", None)):
        raise DefinitionError(
            f"{where}(planner=…) must be an object with a name and a plan(graph, outlook) method, such as "
            f"UniformPlanner(), not {planner!r}"
        )


def check_forecast(predictions: object, platform: object) -> None:
    """Refuse what predicts nothing, or is no model of a platform."""
    predicts = callable(getattr(predictions, "execution_s", None)) and callable(getattr(predictions, "at", None))
    provides = callable(getattr(predictions, "predict_execution_time", None))
    if predictions is not None and (isinstance(predictions, type) or not (predicts or provides)):
        raise DefinitionError(
            "plan(predictions=…) must be FixedPredictions(…), a PredictionsProvider, or an object with the methods of "
            f"augury.plan.predictions.Predictions, not {predictions!r}"
        )
    if not isinstance(platform, PlatformModel | None):
        raise DefinitionError(f"plan(platform=…) must be a PlatformModel(…), not {platform!r}")


def checked_configurations(configurations: object) -> tuple[Resources, ...]:
    """What workers may have, the least first."""
    if configurations is None:
        return (Resources(),)
    listed = tuple(configurations) if isinstance(configurations, Iterable) else ()
    if not listed or not all(isinstance(one, Resources) for one in listed):
        raise DefinitionError(
            "Client(configurations=…) must be a list of Resources(cpus=…, memory_mb=…) with at least one, "
            f"not {configurations!r}"
        )
    return tuple(sorted(listed))


def check_options(name: object, plan: object) -> None:
    """Refuse what is no name of a workflow, or no plan."""
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise DefinitionError(f"the name of a workflow must be a str that is not empty, not name={name!r}")
    if isinstance(name, str) and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise DefinitionError(f"the name of a workflow must be text, which name={name!r} is not")
    if not isinstance(plan, Plan | None):
        raise PlanError(f"the plan to carry out must be a Plan, as .plan() makes it, not plan={plan!r}")


def chosen_history(choice: object, redis: str | None) -> History | None:
    """Where what runs teach is kept; None: nowhere."""
    if choice is False:
        return None
    if isinstance(choice, History):
        return choice
    if choice is None or choice is True:
        try:
            return open_history(redis)
        except StorageError as error:
            _log.warning("nothing that runs teach will be kept: %s", error)
            return None
    if isinstance(choice, str | os.PathLike):
        return open_history(choice)
    raise DefinitionError(f"Client(history=…) must be a folder, an address of Redis or False, not {choice!r}")


def chosen_results(cache_bytes: object, redis: str | None) -> ResultsConfig:
    """Where outputs are kept for later runs, and how much room they have."""
    given, setting = os.environ.get(_CACHE_VARIABLE, "").strip(), "Client(cache_bytes=…)"
    if cache_bytes is None and given:
        setting = _CACHE_VARIABLE
        if not given.isdecimal() or len(given) > len(str(_MOST_CACHE_BYTES)):
            raise DefinitionError(f"{_CACHE_VARIABLE} must be a whole number of bytes, not {given!r}")
        cache_bytes = int(given)
    most_bytes = CACHE_BYTES if cache_bytes is None else cache_bytes
    if not isinstance(most_bytes, int) or not is_whole(most_bytes, least=0, most=_MOST_CACHE_BYTES):
        raise DefinitionError(
            f"{setting} must be a whole number of bytes, at least 0, {but_not(cache_bytes, _MOST_CACHE_BYTES)}"
        )
    if redis is not None:
        return ResultsConfig("", most_bytes)
    try:
        return ResultsConfig(str(state_folder() / "results"), most_bytes)
    except StorageError as error:
        _log.info("outputs are kept no longer than the platform lives: %s", error)
        return ResultsConfig("", most_bytes)


def checked_observers(observers: object) -> list[Observer]:
    """Who is told of runs."""
    listed: list[Any] = list(observers) if isinstance(observers, Iterable) else [observers]
    wrong = [one for one in listed if isinstance(one, type) or not callable(getattr(one, "on_event", None))]
    if wrong or not isinstance(observers, Iterable):
        raise DefinitionError(
            f"Client(observers=…) must be a list of objects with an on_event(event) method, not {observers!r}"
        )
    return listed


@functools.cache
def warn_of_missing_limits(unlimited: str) -> None:
    """Once per process: who makes many clients has read it."""
    _log.warning(
        "the embedded platform cannot limit its workers' %s; Embedded(enforce_limits=False) limits nothing, silently",
        unlimited,
    )
