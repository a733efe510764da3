-- ARGV[4]: the worker. ARGV[5]: its attempt. ARGV[6]: the event for the client.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
write_all()
leave(ARGV[4], tonumber(ARGV[5]), ARGV[6])
return answer(1, 'left', left)
