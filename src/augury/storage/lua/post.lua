-- ARGV[3]: the inbox. ARGV[4] and on: events.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
if ARGV[3] ~= 'client' then
  -- Known from now on, so that `remove` finds the inbox.
  change('HSETNX', WORKERS, ARGV[3], 0)
end
for index = 4, #ARGV do
  append(ARGV[3], 'e', ARGV[index])
end
return answer(1)
