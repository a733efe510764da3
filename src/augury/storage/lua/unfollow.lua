-- A client follows the run no more. ARGV[4]: 1 if it is the one that created it. ARGV[5]: 1 if it has not got what the run is
-- there for, which somebody must before it goes. Returns 1 if nobody needs the run: every key but its objects is deleted.
if not status then
  return 1
end
local earlier = answered()
if earlier then
  return earlier
end
local creator, others, taken = call('HGET', META, 'creator') or '1', followers(), call('HGET', META, 'taken') or '0'
if ARGV[4] == '1' then
  creator = '0'
else
  others = math.max(0, others - 1)
end
if ARGV[5] ~= '1' then
  taken = '1'
end
if taken == '0' or creator == '1' or others > 0 then
  write_all()
  return answer(0, 'creator', creator, 'followers', others, 'taken', taken)
end
remove_all()
return 1
