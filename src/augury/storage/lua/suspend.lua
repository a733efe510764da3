-- ARGV[3]: the worker. ARGV[4]: its attempt. ARGV[5]: its cursor. ARGV[6]: the grace in seconds.
-- Returns 1 if the worker must end.
local name, attempt = ARGV[3], tonumber(ARGV[4])
if not status then
  return 0
end
local current = attempt_of(name)
-- Suspended before, and the reply was lost; or a later attempt has its place.
if attempt < math.abs(current) or attempt == -current then
  return 1
end
if status ~= 'running' or attempt ~= current then
  return 0
end
if call('ZCOUNT', STARTING, '-inf', now_s() - tonumber(ARGV[6])) == 0 then
  return 0
end
if call('XREAD', 'COUNT', 1, 'STREAMS', INBOX .. name, ARGV[5]) then
  return 0
end
change('HSET', WORKERS, name, -attempt)
change('ZREM', LEASES, name)
prolong()
return 1
