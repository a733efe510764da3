-- Keeps the status, the progress, the sinks' outputs, the client's inbox, and what is known of the workers:
-- late ones must not be taken for new ones, and `remove` finds inboxes by their names.
if not status or status == 'running' then
  return 0
end
for _, task in ipairs(call('HKEYS', OUTPUTS)) do
  if call('SISMEMBER', SINKS, task) == 0 then
    call('HDEL', OUTPUTS, task)
  end
end
call('SINTERSTORE', LARGE, LARGE, SINKS)
-- Who has not read its inbox yet must still find the `Stop` there.
if status == 'succeeded' then
  for _, name in ipairs(call('HKEYS', WORKERS)) do
    call('UNLINK', INBOX .. name)
  end
end
call('UNLINK', DONE, COUNTS, SPEC)
prolong_all()
call('EXPIRE', META, ttl)
return 1
