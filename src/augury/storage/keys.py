"""The names of all keys in Redis.

A run's coordination keys share its hash tag, `augury:{run}:…`, so that they live in one slot of a Redis
Cluster and one script may touch them all. Objects have no tag: they spread over all shards.
"""

from dataclasses import dataclass

from augury.storage.protocols import CLIENT

PING = "augury:ping"
"""Written and deleted, to see whether Redis can be written to."""

_SHARED = ("meta", "done", "counts", "outputs", "large", "sinks", "workers", "starting", "left", "spec")


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The coordination keys of one run.

        meta      hash    status, ttl, sinks left, ran, invocations, left; and for each caller its last call and what
                          it was told, for a call that is sent again. The run exists while this key does
        done      bitmap  one bit for each task whose completion was counted
        counts    hash    task → completions counted for it
        outputs   hash    task → `size` (an object) or `size:bytes` (inline)
        large     set     tasks whose outputs are objects
        sinks     set     tasks whose outputs the user asked for
        workers   hash    name → attempt; negative while suspended, 0 if there is only an inbox
        starting  zset    name → when it was claimed, by the clock of Redis
        left      set     `attempt name` of the invocations that have left
        spec      string  the `RunSpec`
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
