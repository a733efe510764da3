-- ARGV[4]: the worker. ARGV[5]: its attempt. ARGV[6]: its cursor. ARGV[7]: the grace in seconds.
-- Returns 1 if the worker must end.
local name, attempt = ARGV[4], tonumber(ARGV[5])
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
local current = attempt_of(name)
-- Suspended before, or a later attempt has its place.
if attempt < math.abs(current) or attempt == -current then
  return decline(1)
end
if status ~= 'running' or attempt ~= current then
  return decline(0)
end
if call('ZCOUNT', STARTING, '-inf', now_s() - tonumber(ARGV[7])) == 0 then
  return decline(0)
end
if call('XREAD', 'COUNT', 1, 'STREAMS', INBOX .. name, ARGV[6]) then
  return decline(0)
end
change('HSET', WORKERS, name, -attempt)
change('ZREM', LEASES, name)
return answer(1)
