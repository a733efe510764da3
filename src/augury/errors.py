"""The exceptions that Augury raises.

AuguryError
├── DefinitionError       a workflow cannot be built: a bad option, a task where none can be
│   └── SerializationError   an argument, a function or a result cannot be turned into bytes
├── PlanError             a plan does not fit its workflow, or a planner cannot make one
├── PlatformError         the platform cannot be started, reached or used
│   ├── StorageError         the storage refuses or does not answer
│   │   └── ObjectTooLarge      a value is larger than the store can hold
│   ├── GatewayError         the gateway refuses or does not answer
│   └── VersionMismatch      client and workers have versions that do not go together
└── RunError              a run ended without a result
    ├── TaskFailed           a task raised; the cause of the user's own exception
    │   └── TaskTimeout         a task ran longer than its `timeout_s`
    ├── UntrustedData        what was to be unpickled is not authentic
    ├── WorkerLost           a worker died: killed, crashed
    │   └── OutOfMemory         it wanted more memory than it had
    ├── RunCancelled         the run was cancelled
    └── RunLost              the storage no longer knows the run

A failing task raises *the user's own exception*, not one of these; its `__cause__` is a `TaskFailed`
that tells the task, the remote traceback and the chain of tasks that needed it.
"""


class AuguryError(Exception):
    """Base of everything that Augury raises itself."""


class DefinitionError(AuguryError):
    """A workflow cannot be built from what was given."""


class SerializationError(DefinitionError):
    """An argument, a function or a result cannot be turned into bytes, or back."""


class PlanError(AuguryError):
    """A plan does not fit its workflow, or cannot be made."""


class PlatformError(AuguryError):
    """The platform cannot be started, reached or used."""


class StorageError(PlatformError):
    """The storage refuses a request or does not answer."""


class ObjectTooLarge(StorageError):
    """A value is larger than the store can hold."""


class VersionMismatch(PlatformError):
    """Client and workers have versions of Python or of packages that do not understand each other."""


class GatewayError(PlatformError):
    """The gateway refuses a request or does not answer."""


class RunError(AuguryError):
    """A run ended without a result."""


class TaskFailed(RunError):
    """A task raised; carries its label, its remote traceback and the tasks that needed it."""


class TaskTimeout(TaskFailed):
    """A task ran longer than its `timeout_s`."""


class UntrustedData(RunError):
    """What was to be unpickled is not authentic: changed, exchanged, or signed with an unknown key."""


class WorkerLost(RunError):
    """A worker died while it held tasks of the run."""


class OutOfMemory(WorkerLost):
    """A worker wanted more memory than it had; carries the tasks that ran, what they used and what they had."""


class RunCancelled(RunError):
    """The run was cancelled before it had a result."""


class RunLost(RunError):
    """The storage no longer knows the run."""
