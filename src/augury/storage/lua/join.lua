-- ARGV[3]: the worker. ARGV[4]: its attempt. Returns {status, bitmap of the tasks that are done, live,
-- how many were starting}.
local name, attempt = ARGV[3], tonumber(ARGV[4])
if not status then
  return { 'gone', '', 0, 0 }
end
local current = attempt_of(name)
-- An attempt that gave its slot up has ended: this is its invocation, delivered a second time.
if attempt < math.abs(current) or attempt == -current then
  return { 'gone', '', 0, 0 }
end
local starting = call('ZCARD', STARTING)
change('HSET', WORKERS, name, attempt)
change('ZREM', STARTING, name)
prolong()
return { status, call('GET', DONE) or '', live(), starting }
