-- ARGV[4]: msgpack of {published, completions, workers to claim, ran, worker, attempt, taken, tried, leaving}. ARGV[5]: the event for
-- the client when the last sink is complete. ARGV[6] and on: small outputs; the report has their places, from 1. `leaving` is the
-- place of the event for the client that the reporter has left, if it has nothing to do unless this gives it something.
-- Returns {status, ready, started (name, attempt, …), store_first, live, again (name, attempt, claim, …), whether the reporter has
-- left}; only {status} if nothing was applied.
--
-- Structs are arrays, their fields in the order of the classes in `protocols.py`:
-- published {task, size, inline}, completion {task, size, inline, held, keep, sink, consumers, watchers},
-- consumer {task, needs, worker}, tried {task, tries, pause_s}. What is watched comes with `keep`.
if not status then
  return { 'gone' }
end
local earlier = answered()
if earlier then
  return earlier
end
if status ~= 'running' then
  return decline({ status })
end

local report = cmsgpack.unpack(ARGV[4])
local reporter = report[5]
local current = attempt_of(reporter)
if current ~= 0 and current ~= report[6] then
  return decline({ 'replaced' })
end
local ready, started, store_first, again = {}, {}, {}, {}
local planned = {} -- consumers with a worker that became ready, in order
local inputs = {} -- such a consumer → the inline outputs of this report that it takes
local mine = {} -- set of `ready`
local progressed = false -- whether a completion was counted
local known = 0 -- completions that were counted before: they ran twice and are done once

local function inline_of(output)
  return output[3] and ARGV[5 + output[3]]
end

-- The first output wins.
local function store(output)
  local task, value = output[1], string.format('%d', output[2])
  local inline = inline_of(output)
  if inline then
    value = value .. ':' .. inline
  end
  if change('HSETNX', OUTPUTS, task, value) == 1 and not inline then
    change('SADD', LARGE, task)
  end
end

-- Counts a completion; false if it was counted before.
local function complete(completion)
  if change('SETBIT', DONE, completion[1], 1) == 1 then
    return false
  end
  progressed = true
  for _, consumer in ipairs(completion[7]) do
    local task, worker = consumer[1], consumer[3]
    if change('HINCRBY', COUNTS, task, 1) == consumer[2] then
      if worker == '' then
        table.insert(ready, task)
        mine[task] = true
        change('HSET', GRANTS, task, reporter)
      else
        table.insert(planned, consumer)
        inputs[task] = {}
      end
    end
  end
  if completion[6] and call('HINCRBY', META, 'sinks', -1) == 0 then
    status = 'succeeded'
  end
  return true
end

-- Whether a held output may stay in the reporter's memory: nobody else will ask for it.
local function may_be_held(completion)
  if completion[5] or completion[6] then
    return false
  end
  for _, consumer in ipairs(completion[7]) do
    if consumer[3] ~= '' or tonumber(call('HGET', COUNTS, consumer[1]) or 0) + 1 ~= consumer[2] then
      return false
    end
  end
  return true
end

-- Whether nobody but the reporter needs an output: a small one, or one that nobody takes and that is not even told.
local function is_mine(completion)
  if completion[5] or completion[6] or (completion[3] ~= nil) == (#completion[7] == 0) then
    return false
  end
  for _, consumer in ipairs(completion[7]) do
    if not mine[consumer[1]] then
      return false
    end
  end
  return true
end

for _, output in ipairs(report[1]) do
  store(output)
end
for _, task in ipairs(report[7]) do
  change('HSET', GRANTS, task, reporter)
end
for _, tried in ipairs(report[8]) do
  change('HSET', LOSSES, string.format('tried %d', tried[1]), string.format('%d %.6f', tried[2], now_s() + tried[3]))
end

local counted, refused = {}, {}
for _, completion in ipairs(report[2]) do
  if not completion[4] then
    if complete(completion) then
      table.insert(counted, completion)
    else
      known = known + 1
    end
  end
end
for _, completion in ipairs(report[2]) do
  local task = completion[1]
  if completion[4] and not refused[task] then
    if call('GETBIT', DONE, task) == 1 then
      known = known + 1
    elseif may_be_held(completion) then
      complete(completion)
    else
      refused[task] = true
      table.insert(store_first, task)
    end
  end
end

-- Only now is it known which consumers this report made ready.
for _, completion in ipairs(counted) do
  if not is_mine(completion) then
    store(completion)
  end
  if completion[3] then
    for _, consumer in ipairs(completion[7]) do
      if inputs[consumer[1]] then
        table.insert(inputs[consumer[1]], completion)
      end
    end
  end
  for _, watcher in ipairs(completion[8]) do
    -- Known from now on, so that `remove` finds the inbox.
    change('HSETNX', WORKERS, watcher, 0)
    local size, inline = string.format('%d', completion[2]), inline_of(completion)
    if inline then
      append(watcher, 'c', completion[1], 's', size, 'd', inline)
    else
      append(watcher, 'c', completion[1], 's', size)
    end
  end
end

for _, consumer in ipairs(planned) do
  local task, worker = consumer[1], consumer[3]
  -- One field for all inputs: a command has room for few thousand arguments, a task for more inputs.
  local index, data = {}, {}
  for _, input in ipairs(inputs[task]) do
    local inline = inline_of(input)
    table.insert(index, string.format('%d %d', input[1], #inline))
    table.insert(data, inline)
  end
  append(worker, 't', task, 'i', table.concat(index, ' '), 'd', table.concat(data))
  local present = attempt_of(worker)
  if present <= 0 then
    table.insert(started, worker)
    table.insert(started, claim(worker, present))
    if lost > 0 and call('HEXISTS', LOSSES, 'restarted ' .. worker) == 1 then
      table.insert(again, worker)
      table.insert(again, 1 - present)
      table.insert(again, call('HGET', CLAIMS, worker) or '')
    end
  end
end

if status == 'succeeded' then
  append('client', 'e', ARGV[5])
else
  for _, wanted in ipairs(report[3]) do
    if attempt_of(wanted[1]) == 0 then
      note_claim(wanted)
      table.insert(started, wanted[1])
      table.insert(started, claim(wanted[1], 0))
    end
  end
end
if lost > 0 and progressed then
  change('HDEL', LOSSES, reporter)
end
if report[4] ~= known then
  call('HINCRBY', META, 'ran', report[4] - known)
end
local has_left = 0
if report[9] and status == 'running' and #ready + #started + #store_first == 0 then
  leave(reporter, report[6], ARGV[5 + report[9]])
  has_left = 1
end
return answer(
  { status, ready, started, store_first, live(), again, has_left },
  'status', status, 'invocations', invocations, 'left', left
)
