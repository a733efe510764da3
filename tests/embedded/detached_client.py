"""A client in a process of its own, for tests that end it: submits a run, says which, and ends as it is told.

Takes JSON: the folder of a gate, addresses of a Redis and a gateway if it is to use them, whether to detach, how to
end, and `linger_s`.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from augury import Client, Embedded, task
from augury.run import care
from tests.embedded.gates import add, pass_through


@task
def mark(value: int, folder: str) -> int:
    """Leave a trace, so that a test can see whether this ran."""
    Path(folder, f"ran-{value}").touch()
    return value


def client_as(told: dict[str, Any]) -> Client:
    if "gateway" in told:
        care.CLIENT_S = told.get("client_s", care.CLIENT_S)
        addresses = {name: told[name] for name in ("redis", "gateway", "token")}
        return Client(**addresses, lease_s=0.4, patience_s=0.5, observers=[])
    platform = Embedded(slots=1, linger_s=told.get("linger_s", 900))
    return Client(redis=told.get("redis"), platform=platform, observers=[])


def main() -> None:
    told = json.loads(sys.argv[1])
    folder = told["gate"]
    client = client_as(told)
    gated = pass_through(40, folder)
    value = add(gated, *(mark(add(gated, number), folder) for number in range(2)))
    run = client.submit({"sum": [value]}, name=told.get("name", "detached"), detach=told.get("detach", True))
    embedded = client._open().embedded
    facts = {"supervisor": embedded.pid, "folder": str(embedded.folder)} if embedded is not None else {}
    sys.stdout.write(json.dumps({"run": run.run_id, **facts}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    match told["end"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise RuntimeError("the client's own mistake")
        case "close":
            client.close()
        case "report":
            run.report(60)
        case "report, kill":
            run.report(60)
            os.kill(os.getpid(), signal.SIGKILL)
        case "result":
            run.result(60)
            client.close()


if __name__ == "__main__":
    main()
