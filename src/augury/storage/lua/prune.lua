-- Keeps the status, the progress, the spec, the sinks' outputs, the client's inbox, and what is known of the workers:
-- late ones must not be taken for new ones, and `remove` finds inboxes by their names. Keeps the inboxes of workers
-- that have not left, too: of what others did for them, or of a `Stop`, they learn there.
if not status or status == 'running' then
  return 0
end
write_all()
for _, task in ipairs(call('HKEYS', OUTPUTS)) do
  if call('SISMEMBER', SINKS, task) == 0 then
    call('HDEL', OUTPUTS, task)
  end
end
call('SINTERSTORE', LARGE, LARGE, SINKS)
if status == 'succeeded' then
  local workers = call('HGETALL', WORKERS)
  for index = 1, #workers, 2 do
    local name, attempt = workers[index], math.abs(tonumber(workers[index + 1]))
    if attempt == 0 or call('SISMEMBER', LEFT, string.format('%d ', attempt) .. name) == 1 then
      call('UNLINK', INBOX .. name)
    end
  end
end
call('UNLINK', DONE, COUNTS, LEASES, CLAIMS, GRANTS, LOSSES)
prolong_all()
call('EXPIRE', META, ttl)
return 1
