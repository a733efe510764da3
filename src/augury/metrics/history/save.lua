-- Put a document in the place of the one that the caller has read, unless somebody was faster.
--
-- KEYS   document, entries (hash: key → head), recent (zset: key → when it was saved),
--        subjects (hash: subject → workflow), learned (zset: subject → when it was learned)
-- ARGV   token of the document that was read (empty if there was none), document (its token in front), time to live,
--        key, head, what stands before keys of documents, most workflows, most subjects, workflow, subjects…
--
-- Returns 1 if the document is there, 0 if another one is. All keys have the same hash tag, also those of documents
-- that give way, which only this script knows. Times are those of Redis: clocks of clients may differ.
local call = redis.call
local DOCUMENT, ENTRIES, RECENT, SUBJECTS, LEARNED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ttl, key, prefix = tonumber(ARGV[3]), ARGV[4], ARGV[6]
local most_workflows, most_subjects, workflow = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9]
local TOKEN_BYTES, FIRST_SUBJECT = 16, 10

local token = call('GETRANGE', DOCUMENT, 0, TOKEN_BYTES - 1)
if token == string.sub(ARGV[2], 1, TOKEN_BYTES) then
  return 1 -- the connection broke after the first time
end
if token ~= ARGV[1] then
  return 0
end

local time = call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000

local function forget(keys)
  for _, old in ipairs(keys) do
    call('UNLINK', prefix .. old)
    call('HDEL', ENTRIES, old)
    call('ZREM', RECENT, old)
  end
end

-- This one is taken out of the row meanwhile, so that it never gives way itself.
call('ZREM', RECENT, key)
forget(call('ZRANGEBYSCORE', RECENT, '-inf', now - ttl, 'LIMIT', 0, 100))
local excess = call('ZCARD', RECENT) + 1 - most_workflows
if excess > 0 then
  forget(call('ZRANGE', RECENT, 0, excess - 1))
end

call('SET', DOCUMENT, ARGV[2], 'EX', ttl)
call('HSET', ENTRIES, key, ARGV[5])
call('ZADD', RECENT, now, key)
for index = FIRST_SUBJECT, #ARGV do
  call('HSET', SUBJECTS, ARGV[index], workflow)
  call('ZADD', LEARNED, now, ARGV[index])
end
local surplus = call('ZCARD', LEARNED) - most_subjects
if surplus > 0 then
  for _, subject in ipairs(call('ZRANGE', LEARNED, 0, surplus - 1)) do
    call('HDEL', SUBJECTS, subject)
    call('ZREM', LEARNED, subject)
  end
end
for index = 2, 5 do
  call('EXPIRE', KEYS[index], ttl)
end
return 1
