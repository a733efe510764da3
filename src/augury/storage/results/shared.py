"""Outputs kept in Redis, for everyone who uses it.

    augury:results:{results}:value:…   string  an output; expires by itself
    augury:results:{results}:used      zset    key → when it was last used
    augury:results:{results}:expiry    zset    key → when its time is over
    augury:results:{results}:sizes     hash    key → bytes
    augury:results:{results}:bytes     string  the sum of these

Values are written and read outside the scripts, which would copy them, but in the same round trip. A value whose
script was not carried out expires by itself; one that Redis dropped is found missing, and forgotten in its turn.
All keys share a hash tag, so they are in one slot of a Redis Cluster, and all expire. Times are those of Redis.
"""

import math
from typing import Final

from augury.backoff import Backoff
from augury.config import LONGEST_CACHE_S
from augury.serde import Blob, Buffer
from augury.storage.redis_client import Argument, RedisClient
from augury.storage.results.protocol import ENTRY_BYTES

_PREFIX: Final = "augury:results:{results}:"
_VALUE: Final = f"{_PREFIX}value:"
_INDEX: Final = tuple(f"{_PREFIX}{name}" for name in ("used", "expiry", "sizes", "bytes"))

_LARGEST_BYTES: Final = 511 * 1024**2
_TIMEOUT_S: Final = 10.0
_BACKOFF: Final = Backoff(patience_s=0.1)
"""A task can be run instead: nobody waits long for what was kept."""

_AT_ONCE: Final = 1000
"""How many outputs one script forgets at most: Redis serves nobody else meanwhile."""

_SHARED: Final = f"""
local call = redis.call
local USED, EXPIRY, SIZES, BYTES = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local VALUE = ARGV[1]
local time = call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local function forget(key)
  call('UNLINK', VALUE .. key)
  call('ZREM', USED, key)
  call('ZREM', EXPIRY, key)
  local size = call('HGET', SIZES, key)
  if size then
    call('HDEL', SIZES, key)
    call('DECRBY', BYTES, size)
  end
end

-- Have what was not asked for longest give way; whether there is more to do.
local function make_room(most, longest)
  for _ = 1, {_AT_ONCE} do
    if tonumber(call('GET', BYTES) or 0) <= most then
      return 0
    end
    local oldest = call('ZRANGE', USED, 0, 0)[1]
    if not oldest then
      call('SET', BYTES, 0, 'EX', longest)
      return 0
    end
    forget(oldest)
  end
  return 1
end
"""

_USE: Final = f"""{_SHARED}
call('ZADD', USED, 'XX', string.format('%.6f', now), ARGV[2])
"""

_KEEP: Final = f"""{_SHARED}
local key, size, expires, most, longest = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local before = tonumber(call('HGET', SIZES, key) or 0)
call('HSET', SIZES, key, size)
local bytes = call('INCRBY', BYTES, size - before)
call('ZADD', USED, string.format('%.6f', now), key)
call('ZADD', EXPIRY, string.format('%.6f', now + expires), key)
for _, index in ipairs(KEYS) do
  call('EXPIRE', index, longest)
end
for _, old in ipairs(call('ZRANGEBYSCORE', EXPIRY, '-inf', string.format('%.6f', now), 'LIMIT', 0, {_AT_ONCE})) do
  forget(old)
end
return make_room(most, longest)
"""

_MAKE_ROOM: Final = f"""{_SHARED}
return make_room(tonumber(ARGV[2]), ARGV[3])
"""

_CLEAR: Final = f"""{_SHARED}
local keys = call('ZRANGE', USED, 0, {_AT_ONCE - 1})
for _, key in ipairs(keys) do
  forget(key)
end
if #keys < {_AT_ONCE} then
  call('UNLINK', USED, EXPIRY, SIZES, BYTES)
end
return #keys
"""


class RedisResults:
    """Keeps outputs in Redis; see `Results`. Connects when first used.

    Args:
        address: Such as `redis://host:6379/0`, `rediss://…` or `unix:///path`.
        most_bytes: How much room there is.
    """

    def __init__(self, address: str, most_bytes: int) -> None:
        self._client = RedisClient(address, timeout_s=_TIMEOUT_S, connect_timeout_s=_TIMEOUT_S, backoff=_BACKOFF)
        self._most_bytes = most_bytes

    def get(self, key: str) -> Buffer | None:
        """See `Results.get`."""
        found: bytes | None
        found, _ = self._client.pipeline([("GET", f"{_VALUE}{key}"), _eval(_USE, key)])
        return found

    def put(self, key: str, blob: Blob, expires_s: float) -> None:
        """See `Results.put`."""
        size_bytes = blob.size_bytes + ENTRY_BYTES
        if size_bytes > self._most_bytes or size_bytes > _LARGEST_BYTES:
            return
        room = (self._most_bytes, LONGEST_CACHE_S + 1)
        keep = _eval(_KEEP, key, size_bytes, expires_s, *room)
        (too_much,) = self._client.set_with(f"{_VALUE}{key}", blob, math.ceil(expires_s), [keep])
        while too_much:
            too_much = self._client.command(*_eval(_MAKE_ROOM, *room))

    def clear(self) -> int:
        """See `Results.clear`."""
        count = 0
        while True:
            forgotten = int(self._client.command(*_eval(_CLEAR)))
            count += forgotten
            if forgotten < _AT_ONCE:
                return count

    def close(self) -> None:
        """Close connections."""
        self._client.close()


def _eval(script: str, *arguments: Argument) -> tuple[Argument, ...]:
    return ("EVAL", script, len(_INDEX), *_INDEX, _VALUE, *arguments)
