-- ARGV[3]: the spec. ARGV[4]: msgpack of {ttl_s, sinks, names of the workers to claim}.
-- Returns 1, or 0 if there is such a run already.
if status then
  return answered() or 0
end
local request = cmsgpack.unpack(ARGV[4])
status, ttl, invocations, left = 'running', request[1], 0, 0
change('SET', SPEC, ARGV[3])
for _, sink in ipairs(request[2]) do
  change('SADD', SINKS, sink)
end
for _, name in ipairs(request[3]) do
  if attempt_of(name) == 0 then
    claim(name, 0)
  end
end
return answer(
  1, 'status', status, 'ttl', ttl, 'sinks', call('SCARD', SINKS), 'ran', 0, 'invocations', invocations, 'left', left
)
