-- ARGV[4]: the worker. ARGV[5]: its attempt. Returns {status, bitmap of the tasks that are done, live,
-- how many were starting, whether it stands for a lost one}.
local name, attempt = ARGV[4], tonumber(ARGV[5])
if not status then
  return { 'gone', '', 0, 0, 0 }
end
if is_late() then
  return { 'replaced', '', 0, 0, 0 }
end
local current = attempt_of(name)
-- A claim that was joined, or is over: this is its invocation, delivered a second time. Who asks again because the
-- answer was lost is the same.
local earlier = answered()
local embodied = attempt == current and not call('ZSCORE', STARTING, name) and not earlier
if embodied or earlier == 0 or attempt < math.abs(current) or attempt == -current then
  decline(0)
  return { 'replaced', '', 0, 0, 0 }
end
-- If nobody could beat, the next beat sees to that: the client may be about to.
if status == 'running' and is_orphan() and not stood_still(call('HGET', META, 'beat')) then
  cancel_orphan()
end
local starting = call('ZCARD', STARTING)
change('HSET', WORKERS, name, attempt)
change('ZREM', STARTING, name)
change('ZADD', LEASES, now_s() + lease_of(name), name)
local restarted = 0
if lost > 0 and attempt >= tonumber(call('HGET', LOSSES, 'restarted ' .. name) or attempt + 1) then
  restarted = 1
end
answer(1)
return { status, call('GET', DONE) or '', live(), starting, restarted }
