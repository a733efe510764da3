-- What every script begins with: the keys of the run, its state, and the steps that several scripts share.
--
-- KEYS are those of `RunKeys.shared`, then the inboxes that the call may write to. Inboxes are reached by
-- name, because `fail` and `remove` only learn here which there are; they have the run's hash tag, so they
-- are in the same slot. A run that does not exist has no status, and no script but `create` then writes.
--
-- ARGV[1] is a caller that makes one call at a time, and ARGV[2] counts its calls: see `answered`.
local call = redis.call
local META, DONE, COUNTS, OUTPUTS, LARGE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local SINKS, WORKERS, STARTING, LEFT, SPEC, CLIENT = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local INBOX = string.sub(CLIENT, 1, -(#'client' + 1))
local CALLER = 'caller:' .. ARGV[1]

local state = call('HMGET', META, 'status', 'ttl', 'invocations', 'left', CALLER)
local status, ttl = state[1], tonumber(state[2])
local invocations, left = tonumber(state[3]), tonumber(state[4])

-- The run is gone when META is, so every other key must outlive it, also one that nobody changes: they get
-- more time than META, and all of them get it again before one has less.
local function spare()
  return ttl + math.max(1, math.floor(ttl / 16))
end

local changed = {}

-- A command that changes a key.
local function change(command, key, ...)
  changed[key] = true
  return call(command, key, ...)
end

local function append(name, ...)
  change('XADD', INBOX .. name, '*', ...)
end

local function prolong_all()
  for _, key in ipairs(KEYS) do
    call('EXPIRE', key, spare())
  end
  for _, name in ipairs(call('HKEYS', WORKERS)) do
    call('EXPIRE', INBOX .. name, spare())
  end
end

-- The last step of a script that changed something.
local function prolong()
  -- Nobody changes SINKS after `create`, so it is the first to run out.
  local rest = call('TTL', SINKS)
  if rest >= 0 and rest < ttl then
    prolong_all()
  else
    for key in pairs(changed) do
      call('EXPIRE', key, spare())
    end
  end
  call('EXPIRE', META, ttl)
end

-- A client that loses its connection before the reply sends the same call again, and must be told the same:
-- who became ready or may be started is told once. A call older than the caller's last one has nobody left who
-- waits for the reply.
local function answered()
  local last = state[5]
  if not last then
    return nil
  end
  local entry = cmsgpack.unpack(last)
  if entry[1] < tonumber(ARGV[2]) then
    return nil
  end
  return entry[2]
end

-- The reply, remembered; and fields of META to set with it.
local function answer(reply, ...)
  call('HSET', META, CALLER, cmsgpack.pack({ tonumber(ARGV[2]), reply }), ...)
  prolong()
  return reply
end

local function now_s()
  local time = call('TIME')
  return time[1] + time[2] / 1000000
end

-- 0: never claimed. Negative: suspended.
local function attempt_of(name)
  return tonumber(call('HGET', WORKERS, name) or 0)
end

-- The right, and the duty, to start a worker that does not run; returns its attempt. The caller sets the
-- number of invocations in META.
local function claim(name, current)
  local attempt = 1 - current
  change('HSET', WORKERS, name, attempt)
  change('ZADD', STARTING, now_s(), name)
  invocations = invocations + 1
  return attempt
end

-- Invocations that are claimed and have not left.
local function live()
  return math.max(0, invocations - left)
end
