-- A client that follows the run needs it no more. Returns 1 if nobody does: every key but its objects is deleted.
if not status then
  return 1
end
local earlier = answered()
if earlier then
  return earlier
end
if followers() > 1 then
  return answer(0, 'followers', followers() - 1)
end
remove_all()
return 1
