-- ARGV[3]: the worker. ARGV[4]: its attempt. ARGV[5]: the event for the client.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
write_all()
left = left + change('SADD', LEFT, ARGV[4] .. ' ' .. ARGV[3])
-- It may have died before it joined: nobody gives a slot up for it.
if attempt_of(ARGV[3]) == tonumber(ARGV[4]) then
  change('ZREM', STARTING, ARGV[3])
  change('ZREM', LEASES, ARGV[3])
end
append('client', 'e', ARGV[5])
return answer(1, 'left', left)
