-- ARGV[4]: how the run ends. ARGV[5]: the event for the client. ARGV[6]: the event for workers. ARGV[7]: the worker that it is
-- for, or empty; nothing happens unless ARGV[8] is its attempt.
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
if ARGV[7] ~= '' then
  local current = attempt_of(ARGV[7])
  if current ~= 0 and current ~= tonumber(ARGV[8]) then
    return decline(0)
  end
end
finish(ARGV[4], ARGV[5], ARGV[6])
return answer(1, 'status', ARGV[4])
