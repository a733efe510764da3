"""The embedded platform: functions-as-a-service on the user's own machine, with nothing to set up.

    client ──┬── supervisor ──┬── redis-server
             │ (stdin: life)  └── pre-loaded parent ──┬── worker
             │                    (control socket)    ├── worker
             └─ HTTP, token ─▶ supervisor             └── …   (one socket each, to the supervisor)

The supervisor (`supervisor`) is a fresh interpreter that queues invocations, keeps workers warm and notices
deaths; what it decides is in `pool`, which does no I/O, what became of workers it learns from `inquest`, and what it
has to say to runs goes through `messenger`. The pre-loaded parent (`zygote`) has imported all that
workers need and forks them in milliseconds. A worker (`worker_loop`) runs one invocation after another.

Whoever dies, however it dies, what was below it follows: the supervisor reads the end of its standard input when the
client is gone; the parent reads the end of its control socket when the supervisor is gone; workers and Redis
are killed by the kernel when their parent is gone. A parent that dies is replaced by the supervisor; and if the client
leaves detached runs, the supervisor stays for them, within bounds (`lingering`). Folders and control groups are
locked by the supervisor for as long as it lives; the next platform removes those that nobody holds (`folders`,
`cgroups`).
"""
