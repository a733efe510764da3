"""The names of all keys in Redis.

A run's coordination keys share its hash tag, `augury:{run}:…`, so that they live in one slot of a Redis
Cluster and one script may touch them all. Objects have no tag: they spread over all shards.
"""

from dataclasses import dataclass

from augury.storage.protocols import CLIENT

PING = "augury:ping"
"""Written and deleted, to see whether Redis can be written to."""

_SHARED = (
    *("meta", "done", "counts", "outputs", "large", "sinks", "workers", "starting", "left", "spec"),
    *("leases", "claims", "grants", "losses"),
)


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The coordination keys of one run.

        meta      hash    status, ttl, sinks left, ran, invocations, left; how the run looks after its workers, how many
                          were lost, when somebody beat last, when all leases began anew last and when all
                          objects were to live on; and for each caller its last call and what
                          it was told, for a call that is sent again. The run exists while this key does
        done      bitmap  one bit for each task whose completion was counted
        counts    hash    task → completions counted for it
        outputs   hash    task → `size` (an object) or `size:bytes` (inline)
        large     set     tasks whose outputs are objects
        sinks     set     tasks whose outputs the user asked for
        workers   hash    name → attempt; negative while suspended, 0 if there is only an inbox
        starting  zset    name → when it was claimed, by the clock of Redis
        left      set     `attempt name` of the invocations that have left or were lost
        spec      string  the `RunSpec`
        leases    zset    name → until when it need not be heard of, for those that are claimed and have not left
        claims    hash    name → the tasks that it is claimed with, and its resources
        grants    hash    flexible task → the worker that a report made it ready for, or that has taken it
        losses    hash    name → losses in a row; `restarted name` → the attempt that stands for a lost one;
                         `tried task` → which try is the next, and when
        objects   list    keys of the run's objects, behind one empty entry; objects may be put while it exists
        inbox:…   stream  the events of one worker, or of the client

    Attributes:
        run_id: The run.
        shared: What every script gets as KEYS, in the order that `lua/common.lua` knows; then come the inboxes.
    """

    run_id: str
    shared: tuple[str, ...]

    @classmethod
    def of(cls, run_id: str) -> "RunKeys":
        """The keys of a run."""
        keys = [_tagged(run_id, what) for what in _SHARED]
        return cls(run_id, (*keys, _tagged(run_id, f"inbox:{CLIENT}")))

    @property
    def meta(self) -> str:
        """The hash whose existence is the run's."""
        return _tagged(self.run_id, "meta")

    @property
    def outputs(self) -> str:
        """The hash of stored outputs."""
        return _tagged(self.run_id, "outputs")

    @property
    def large(self) -> str:
        """The set of tasks whose outputs are objects."""
        return _tagged(self.run_id, "large")

    @property
    def starting(self) -> str:
        """The set of workers that are claimed and have not joined."""
        return _tagged(self.run_id, "starting")

    @property
    def spec(self) -> str:
        """What the client uploaded."""
        return _tagged(self.run_id, "spec")

    @property
    def grants(self) -> str:
        """Who has which flexible task."""
        return _tagged(self.run_id, "grants")

    @property
    def leases(self) -> str:
        """Until when workers need not be heard of."""
        return _tagged(self.run_id, "leases")

    @property
    def workers(self) -> str:
        """Which attempt of each worker is the present one."""
        return _tagged(self.run_id, "workers")

    @property
    def claims(self) -> str:
        """What workers are claimed with."""
        return _tagged(self.run_id, "claims")

    @property
    def losses(self) -> str:
        """What was lost, and tried."""
        return _tagged(self.run_id, "losses")

    @property
    def objects(self) -> str:
        """The list of the run's objects."""
        return _tagged(self.run_id, "objects")

    def inbox(self, name: str) -> str:
        """The stream of one worker, or of the client."""
        return _tagged(self.run_id, f"inbox:{name}")


def object_key(run_id: str, key: str) -> str:
    """Where an object is; each may be on another shard."""
    return f"augury:obj:{run_id}:{key}"


def _tagged(run_id: str, what: str) -> str:
    return f"augury:{{{run_id}}}:{what}"
