"""What an invocation does that is to measure the gateway alone: one round trip to Redis, by the client of workers."""

import functools

from augury.invoke.gateway import Invocation, InvocationContext
from augury.storage.redis_client import RedisClient


@functools.cache
def _client(address: str) -> RedisClient:
    return RedisClient(address)


def handle(_invocation: Invocation, context: InvocationContext) -> bool:
    _client(context.storage.redis).command("INCR", "benchmark:invocations")
    return False
