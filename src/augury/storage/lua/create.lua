-- ARGV[4]: the spec. ARGV[5]: msgpack of {ttl_s, sinks, workers to claim, workers of the plan, lease_s, restarts, larger},
-- workers {name, tasks, cpus, memory_mb}, larger {{cpus, memory_mb}, …}. ARGV[6]: how long the client may be silent, 0 for
-- ever; ARGV[7] and ARGV[8]: the events for the client and for workers if it is not heard of for longer.
-- Returns 1, or 0 if there is such a run already.
if status then
  return answered() or decline(0)
end
local request = cmsgpack.unpack(ARGV[5])
status, ttl, invocations, left = 'running', request[1], 0, 0
change('SET', SPEC, ARGV[4])
for _, sink in ipairs(request[2]) do
  change('SADD', SINKS, sink)
end
lease_s = request[5]
for _, planned in ipairs(request[4]) do
  note_claim(planned)
end
for _, first in ipairs(request[3]) do
  if attempt_of(first[1]) == 0 then
    note_claim(first)
    claim(first[1], 0)
  end
end
if tonumber(ARGV[6]) > 0 then
  call('HSET', META, 'client lease', ARGV[6], 'client until', now_s() + ARGV[6], 'cancelled', ARGV[7], 'stop', ARGV[8])
end
return answer(
  1, 'status', status, 'ttl', ttl, 'sinks', call('SCARD', SINKS), 'ran', 0, 'invocations', invocations, 'left', left,
  'lease', lease_s, 'restarts', request[6], 'larger', cmsgpack.pack(request[7]),
  'beat', now_s(), 'objects', now_s()
)
