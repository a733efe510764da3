-- ARGV[4]: the worker. ARGV[5]: its attempt. ARGV[6]: the event for the client.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
write_all()
left = left + change('SADD', LEFT, ARGV[5] .. ' ' .. ARGV[4])
-- It may have died before it joined: nobody gives a slot up for it.
if attempt_of(ARGV[4]) == tonumber(ARGV[5]) then
  change('ZREM', STARTING, ARGV[4])
  change('ZREM', LEASES, ARGV[4])
end
append('client', 'e', ARGV[6])
return answer(1, 'left', left)
