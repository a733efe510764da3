-- ARGV[3]: how the run ends. ARGV[4]: the event for the client. ARGV[5]: the event for workers.
-- Returns 1 to the one call that ended the run.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
if status ~= 'running' then
  return 0
end
append('client', 'e', ARGV[4])
local workers = call('HGETALL', WORKERS)
for index = 1, #workers, 2 do
  if workers[index + 1] ~= '0' then
    append(workers[index], 'e', ARGV[5])
  end
end
return answer(1, 'status', ARGV[3])
