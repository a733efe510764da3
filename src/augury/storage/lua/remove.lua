-- Deletes every key of the run but its objects.
for _, name in ipairs(call('HKEYS', WORKERS)) do
  call('UNLINK', INBOX .. name)
end
for _, key in ipairs(KEYS) do
  call('UNLINK', key)
end
return 1
