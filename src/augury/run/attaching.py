"""Following a run that another client, perhaps in a process that is gone, has started."""

import time
from collections.abc import Sequence
from typing import Any

from augury import serde
from augury.backoff import Backoff
from augury.config import StorageConfig
from augury.dag.graph import Graph, Workflow
from augury.errors import (
    AuguryError,
    GatewayError,
    RunError,
    RunLost,
    SerializationError,
    StorageError,
    UntrustedData,
)
from augury.invoke.gateway import Limits
from augury.invoke.http_gateway import HttpGateway
from augury.metrics.history.history import History
from augury.observation import Observer
from augury.plan.plan import Plan
from augury.run.handle import Run
from augury.run.places import Place, forget_place
from augury.run.platform import Platform
from augury.run.watch import RunWatch
from augury.storage.opening import open_storage
from augury.storage.protocols import Coordination, RunSpec, Status
from augury.storage.signing import check_spec
from augury.trust.seal import Keyring
from augury.versions import check_versions


def attach_run(
    place: Place, keyring: Keyring, observers: Sequence[Observer], history: History | None, patience_s: float
) -> tuple[Run[Any], RunWatch]:
    """A handle on a run that goes on somewhere; what it opened is closed when nothing more is wanted of that.

    Args:
        place: Where the run is.
        keyring: What it is signed with.
        observers: Who is told of it.
        history: Where what is measured goes; None: nowhere.
        patience_s: How long Redis and the gateway may be away.

    Raises:
        RunLost: The storage does not know the run.
        RunError: It ends with the client that started it.
        VersionMismatch: That has versions that do not go with ours.
        UntrustedData: That has none of our keys.
    """
    spec = _checked_spec(place, keyring, patience_s)
    platform = _open_platform(place, spec, keyring, patience_s)
    try:
        watch = _watch(place.run_id, spec, platform, observers, history)
    except BaseException:
        platform.close()
        raise
    watch.parting.done.add_done_callback(lambda _: platform.close())
    return Run(run_id=place.run_id, name=spec.name, watch=watch), watch


def _checked_spec(place: Place, keyring: Keyring, patience_s: float) -> RunSpec:
    storage = open_storage(StorageConfig(redis=place.redis, patience_s=patience_s))
    try:
        storage.ping()
        spec = storage.coordination(place.run_id).spec()
    except StorageError as error:
        if not (place.owns_storage and place.is_over):  # it may be held up, and answer later
            raise
        forget_place(place.run_id)
        raise RunLost(f"run {place.run_id} is lost: the embedded platform that it ran on has died") from error
    finally:
        storage.close()
    if spec is None:
        if place.is_noted:  # else it may be somewhere else
            forget_place(place.run_id)
        raise RunLost(
            f"run {place.run_id} is not in storage: its result was fetched by all who followed it, or it has expired, "
            "or it was on another Redis; start it again"
        )
    try:
        check_spec(spec, keyring.seal(place.run_id, skips_buffers=bool(spec.object_dir)))
    except UntrustedData:
        # Another version may sign in another way: then say that.
        check_versions(spec.versions, essential=True, attaching=True)
        raise
    check_versions(spec.versions, attaching=True)
    if not spec.detached:
        raise RunError(
            f"run {spec.name} ({place.run_id}) ends with the client that started it, and cannot be attached to: start "
            "it with submit(…, detach=True)"
        )
    return spec


def _open_platform(place: Place, spec: RunSpec, keyring: Keyring, patience_s: float) -> Platform:
    config = StorageConfig(redis=place.redis, object_dir=spec.object_dir, patience_s=patience_s)
    storage = open_storage(config)
    gateway = HttpGateway(place.gateway, place.token, backoff=Backoff(patience_s=patience_s))
    try:
        limits = _limits(gateway, storage.coordination(place.run_id))
    except BaseException:
        storage.close()
        raise
    return Platform(
        storage,
        place.redis,
        gateway,
        limits,
        None,
        place.platform,
        keyring,
        object_dir=spec.object_dir,
        owns_storage=place.owns_storage,
    )


def _limits(gateway: HttpGateway, run: Coordination) -> Limits:
    """What the platform can do; one that is gone is not missed if the run is over."""
    try:
        return gateway.limits()
    except GatewayError:
        if run.status() is Status.RUNNING:
            raise
        return Limits(concurrency=1)


def _watch(
    run_id: str, spec: RunSpec, platform: Platform, observers: Sequence[Observer], history: History | None
) -> RunWatch:
    graph = Graph.decode(spec.graph)
    plan = Plan.decode(spec.plan)
    watch = RunWatch(
        run_id,
        spec.name,
        Workflow(graph=graph, nodes=(), functions=(), ids={}, template=_template(run_id, spec)),
        platform,
        observers,
        history=history,
        kept_as=spec.kept_as,
        started_s=time.monotonic() - max(0.0, time.time() - spec.submitted_s),
        detached=True,
        care=spec.care,
    )
    if not platform.storage.coordination(run_id).follow():
        raise RunLost(f"run {spec.name} ({run_id}) has just been removed by the last who followed it; start it again")
    watch.follow(plan, spec.submitted_s)
    return watch


def _template(run_id: str, spec: RunSpec) -> Any:
    try:
        return serde.loads(spec.template)
    except AuguryError:
        raise
    except Exception as error:  # loading may import the user's modules
        raise SerializationError(
            f"what run {spec.name} ({run_id}) was asked for cannot be loaded here ({error!r}): attach where the same "
            "modules can be imported"
        ) from error
