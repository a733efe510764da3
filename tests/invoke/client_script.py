"""A client in a process of its own, for tests that kill it: starts a platform, says where it is, and waits."""

import json
import sys

from tests.invoke.stage import embedded


def main() -> None:
    platform = embedded(slots=4).start()
    facts = {
        "supervisor": platform.pid,
        "url": platform.url,
        "token": platform.token,
        "redis": platform.storage_config.redis,
        "object_dir": platform.storage_config.object_dir,
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
