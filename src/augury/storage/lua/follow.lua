-- One more client follows the run. Returns 1, or 0 if there is no such run.
if not status then
  return 0
end
local earlier = answered()
if earlier then
  return earlier
end
write_all()
return answer(1, 'followers', followers() + 1)
