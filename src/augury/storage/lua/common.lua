-- What every script begins with: the keys of the run, its state, and the steps that several scripts share.
--
-- KEYS are those of `RunKeys.shared`, then the inboxes that the call may write to. Inboxes are reached by
-- name, because `fail` and `remove` only learn here which there are; they have the run's hash tag, so they
-- are in the same slot. A run that does not exist has no status, and no script but `create` then writes.
--
-- ARGV[1] is a caller that makes one call at a time, ARGV[2] counts its calls, and ARGV[3] names the last answered call of each
-- caller of the same client of which that has not told yet: see `answered` and `has_forgotten`.
local call = redis.call
local META, DONE, COUNTS, OUTPUTS, LARGE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local SINKS, WORKERS, STARTING, LEFT, SPEC = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local LEASES, CLAIMS, GRANTS, LOSSES, CLIENT = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local INBOX = string.sub(CLIENT, 1, -(#'client' + 1))
local CALLER, NUMBER, KNOWN = 'caller:' .. ARGV[1], tonumber(ARGV[2]), ARGV[3]

local state = call('HMGET', META, 'status', 'ttl', 'invocations', 'left', CALLER, 'lease', 'lost')
local status, ttl = state[1], tonumber(state[2])
local invocations, left = tonumber(state[3]), tonumber(state[4])
local lease_s, lost = tonumber(state[6]), tonumber(state[7]) or 0

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

-- Have a full Redis (`maxmemory`) take what follows: it refuses the first command of a script that takes memory, but
-- none after one that has written, since a script is carried out as a whole. Only for what is small and must be told,
-- since nobody would hear of the end of a run otherwise, or what makes room, or leads to it.
local function write_all()
  call('EXPIRE', META, ttl)
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
local last = state[5] and cmsgpack.unpack(state[5])

local function answered()
  if not last or last[1] < NUMBER then
    return nil
  end
  return last[2]
end

-- Whether this is a copy of a call that was served, and followed by others: the network may keep it for as long as it likes.
local function is_late()
  return last and last[1] > NUMBER
end

-- The last call of a caller is remembered. If one is not that its client knows to be answered, it was answered by a Redis that
-- has lost it since: restarted with an old copy of its data, or a replica that had not got everything. What is left contradicts
-- what workers know.
local function has_forgotten()
  local place = 1
  while place <= #KNOWN do
    local name, number
    name, number, place = struct.unpack('>c8I4', KNOWN, place)
    local found = last
    if 'caller:' .. name ~= CALLER then
      local data = call('HGET', META, 'caller:' .. name)
      found = data and cmsgpack.unpack(data)
    end
    if not found or found[1] < number then
      return true
    end
  end
  return false
end

-- The reply, remembered; and fields of META to set with it.
local function answer(reply, ...)
  call('HSET', META, CALLER, cmsgpack.pack({ NUMBER, reply }), ...)
  prolong()
  return reply
end

-- Clients that follow the run besides the one that created it.
local function followers()
  return tonumber(call('HGET', META, 'followers') or 0)
end

local function remove_all()
  for _, name in ipairs(call('HKEYS', WORKERS)) do
    call('UNLINK', INBOX .. name)
  end
  for _, key in ipairs(KEYS) do
    call('UNLINK', key)
  end
end

-- Ends the run, and tells the client and every worker that was claimed.
local function finish(how, for_client, for_workers)
  status = how
  write_all()
  append('client', 'e', for_client)
  local workers = call('HGETALL', WORKERS)
  for index = 1, #workers, 2 do
    if workers[index + 1] ~= '0' then
      append(workers[index], 'e', for_workers)
    end
  end
end

local function now_s()
  local time = call('TIME')
  return time[1] + time[2] / 1000000
end

-- Whether nobody could beat for a while: storage was away, or every machine slept. Half a lease is enough to tell.
local function stood_still(beat_s)
  return now_s() - tonumber(beat_s) > lease_s / 2
end

-- Whether the run was to end with its client, and that is silent for too long.
local function is_orphan()
  local until_s = call('HGET', META, 'client until')
  return until_s and now_s() > tonumber(until_s)
end

-- Ends such a run; the caller answers with its status.
local function cancel_orphan()
  finish('cancelled', call('HGET', META, 'cancelled'), call('HGET', META, 'stop'))
  call('HSET', META, 'status', status)
end

-- 0: never claimed. Negative: suspended.
local function attempt_of(name)
  return tonumber(call('HGET', WORKERS, name) or 0)
end

-- A worker is claimed; returns its attempt. The caller sets the number of invocations in META.
local function expect(name, attempt)
  local now = now_s()
  change('HSET', WORKERS, name, attempt)
  change('ZADD', STARTING, now, name)
  change('ZADD', LEASES, now + lease_s, name)
  invocations = invocations + 1
  return attempt
end

-- The right, and the duty, to start a worker that does not run; returns its attempt.
local function claim(name, current)
  return expect(name, 1 - current)
end

-- An invocation has ended, and the client is told. The caller sets `left` in META.
local function leave(name, attempt, for_client)
  left = left + change('SADD', LEFT, string.format('%d ', attempt) .. name)
  -- It may have died before it joined: nobody gives a slot up for it.
  if attempt_of(name) == attempt then
    change('ZREM', STARTING, name)
    change('ZREM', LEASES, name)
  end
  append('client', 'e', for_client)
end

-- Keeps what a worker is, or will be, claimed with: {tasks, cpus, memory_mb}.
local function note_claim(request)
  change('HSET', CLAIMS, request[1], cmsgpack.pack({ request[2], request[3], request[4] }))
end

-- For how long a worker may be silent.
local function lease_of(name)
  if lost == 0 then
    return lease_s
  end
  return lease_s * 2 ^ tonumber(call('HGET', LOSSES, name) or 0)
end

-- Invocations that are claimed and have not left.
local function live()
  return math.max(0, invocations - left)
end

-- A reply that changes nothing, remembered too.
local function decline(reply)
  write_all()
  return answer(reply)
end

-- The run is lost, for everyone: it would wait for ever for what Redis has forgotten.
if status and has_forgotten() then
  remove_all()
  status = nil
end
