-- ARGV[4]: who beats, `client` for the client that the run ends with, or empty. ARGV[5]: its attempt. ARGV[6]: how many workers
-- that have not come up are started again at once. ARGV[7]: after how many seconds they never will. ARGV[8] and on: worker,
-- attempt and cause of each invocation that is lost.
-- Returns {status, start (name, attempt, claim, …), hopeless (name, attempt, losses, cause, claim, …), whether the caller has
-- the duty to have the objects of the run live on}: they are other keys, perhaps on other shards.
if not status then
  return { 'gone', {}, {}, 0 }
end
local earlier = answered()
if earlier then
  return earlier
end
if status ~= 'running' then
  return decline({ status, {}, {}, 0 })
end
local me, most, now = ARGV[4], tonumber(ARGV[6]), now_s()
if me == 'client' then
  me = ''
  local client_s = call('HGET', META, 'client lease')
  if client_s then
    call('HSET', META, 'client until', now + client_s)
  end
elseif me ~= '' and attempt_of(me) ~= tonumber(ARGV[5]) then
  return decline({ 'replaced', {}, {}, 0 })
end

-- Nobody could beat, and those who come back now may all be alive. After half a lease: their last beats may have been a part
-- of a lease earlier, so that leases run out before a whole one is over. But once only for each worker that is not heard of
-- between two such times: who is dead must be found, even if whoever still beats does so rarely. The same goes for the client.
local function renew_all(renewed)
  local leases = call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
  for index = 1, #leases, 2 do
    local name, until_s = leases[index], tonumber(leases[index + 1])
    if until_s > renewed + lease_of(name) then
      change('ZADD', LEASES, math.max(until_s, now + lease_of(name)), name)
    end
  end
  local client = call('HMGET', META, 'client lease', 'client until')
  if client[1] and tonumber(client[2]) > renewed + client[1] then
    call('HSET', META, 'client until', math.max(tonumber(client[2]), now + client[1]))
  end
  call('HSET', META, 'renewed', now)
end

local beats = call('HMGET', META, 'beat', 'renewed', 'objects')
if stood_still(beats[1]) then
  renew_all(tonumber(beats[2] or 0))
end
if is_orphan() then
  cancel_orphan()
  return answer({ status, {}, {}, 0 })
end
if me ~= '' and call('ZSCORE', LEASES, me) then -- else it has left, or gave its slot up
  change('ZADD', LEASES, now + lease_of(me), me)
end

local start, hopeless, replaced = {}, {}, {}

local function add_start(name)
  table.insert(start, name)
  table.insert(start, attempt_of(name))
  table.insert(start, call('HGET', CLAIMS, name) or '')
end

-- A claim with the next larger memory and the CPUs that go with it, but not fewer than before; or nil.
local function enlarged(packed)
  local known = cmsgpack.unpack(packed)
  for _, larger in ipairs(cmsgpack.unpack(call('HGET', META, 'larger'))) do
    if larger[2] > known[3] then
      return cmsgpack.pack({ known[1], math.max(larger[1], known[2]), larger[2] })
    end
  end
  return nil
end

-- Whether a worker is a second one for a task that another one still runs; had it been first, more would be its own.
local function is_spare(name)
  if not string.find(name, '/', 1, true) then
    return false
  end
  for _, owner in ipairs(call('HVALS', GRANTS)) do
    if owner == name then
      return false
    end
  end
  return true
end

-- Claims a lost worker again, or finds that there is no hope.
local function replace(name, attempt, cause)
  local claimed, more = call('HGET', CLAIMS, name) or '', nil
  if cause == 'memory' then
    more = claimed ~= '' and enlarged(claimed)
  elseif cause == 'lost' or cause == 'cut' then
    lost = lost + 1
    change('HINCRBY', LOSSES, name, 1)
  end
  local losses = tonumber(call('HGET', LOSSES, name) or 0)
  local in_vain = losses > tonumber(call('HGET', META, 'restarts')) or (cause == 'memory' and not more)
  if in_vain and is_spare(name) then
    left = left + change('SADD', LEFT, string.format('%d ', attempt) .. name)
    change('ZREM', LEASES, name)
    change('ZREM', STARTING, name)
    return
  end
  if in_vain then
    -- Who is told may be lost, too, before it has ended the run.
    change('ZADD', LEASES, now + lease_of(name), name)
    for _, told in ipairs({ name, attempt, losses, cause, claimed }) do
      table.insert(hopeless, told)
    end
    return
  end
  if more then
    change('HSET', CLAIMS, name, more)
  end
  left = left + change('SADD', LEFT, string.format('%d ', attempt) .. name)
  expect(name, attempt + 1)
  lost = math.max(lost, 1)
  change('HSETNX', LOSSES, 'restarted ' .. name, attempt + 1)
  append('client', 'm', name, 'a', attempt, 'w', cause)
  replaced[name] = true
  add_start(name)
end

-- Before anything is changed: who is silent, and who has not come up.
local silent = call('ZRANGEBYSCORE', LEASES, '-inf', now, 'LIMIT', 0, most)
local told = false
for index = 8, #ARGV, 3 do
  local name, attempt = ARGV[index], tonumber(ARGV[index + 1])
  told = told or ARGV[index + 2] == 'lost'
  if attempt_of(name) == attempt and call('ZSCORE', LEASES, name) then
    replace(name, attempt, ARGV[index + 2])
  end
end
local late, is_late = {}, {}
local function add_late(names)
  for _, name in ipairs(names) do
    if not is_late[name] and not replaced[name] then
      is_late[name] = true
      table.insert(late, name)
    end
  end
end
for _, name in ipairs(silent) do
  if call('ZSCORE', STARTING, name) then
    add_late({ name })
  elseif tonumber(call('ZSCORE', LEASES, name) or math.huge) <= now then
    replace(name, attempt_of(name), 'lost')
  end
end
if told then
  add_late(call('ZRANGE', STARTING, 0, most - 1))
end
table.sort(late)
for _, name in ipairs(late) do
  if not replaced[name] then
    -- Twice as long as it has waited: a platform may be slow, or full.
    local waited = now - tonumber(call('ZSCORE', STARTING, name))
    change('ZADD', LEASES, now + math.max(lease_s, waited), name)
    if waited > tonumber(ARGV[7]) and call('ZCARD', LEASES) == call('ZCARD', STARTING) then
      for _, told in ipairs({ name, attempt_of(name), 0, 'start', call('HGET', CLAIMS, name) or '' }) do
        table.insert(hopeless, told)
      end
    else
      add_start(name)
    end
  end
end
local objects_due = 0
if now - tonumber(beats[3]) > ttl / 4 then
  objects_due = 1
  call('HSET', META, 'objects', now)
end
return answer(
  { status, start, hopeless, objects_due },
  'invocations', invocations, 'left', left, 'lost', lost, 'beat', string.format('%.6f', now)
)
