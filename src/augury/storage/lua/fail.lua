-- ARGV[3]: how the run ends. ARGV[4]: the event for the client. ARGV[5]: the event for workers. ARGV[6]: the worker that it is
-- for, or empty; nothing happens unless ARGV[7] is its attempt.
-- Returns 1 to the one call that ended the run.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
if status ~= 'running' then
  return decline(0)
end
if ARGV[6] ~= '' then
  local current = attempt_of(ARGV[6])
  if current ~= 0 and current ~= tonumber(ARGV[7]) then
    return decline(0)
  end
end
finish(ARGV[3], ARGV[4], ARGV[5])
return answer(1, 'status', ARGV[3])
