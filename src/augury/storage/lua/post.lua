-- ARGV[4]: the inbox. ARGV[5] and on: events.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
if ARGV[4] ~= 'client' then
  -- Known from now on, so that `remove` finds the inbox.
  change('HSETNX', WORKERS, ARGV[4], 0)
end
for index = 5, #ARGV do
  append(ARGV[4], 'e', ARGV[index])
end
return answer(1)
