-- Decides which notices may be claimed; needs order/places and record.
--   look(keys)                      reads the heads of the sequences of these keys, and who is in flight in them
--   gate(key, score, token, early)  after look; returns nil if an attempt may start, or if the notice is claimed, as in a lease's last ms.
--                                   Otherwise the score of the parked notice; early = it is not parked
function q.look(keys)
  load(keys)
  if not any(marked) then return end
  local read = {}
  for i = 1, #keys do read[i] = marker(sequence(keys[i])) end
  for i, held in ipairs(call('MGET', unpack(read))) do holders[sequence(keys[i])] = held end
end

function q.gate(key, score, token, early)
  local name = sequence(key)
  local position = head(name) and q.position(key)
  if not position then
    q.join(key, score, made(call('HGET', base .. 'records:' .. route, key)))
    write()
    position = q.position(key)
  end
  while head(name) ~= key and not call('ZSCORE', shadow, head(name)) and
    not (q.blocks and call('ZSCORE', base .. 'dead:' .. route, head(name))) do
    q.leave(head(name))
    write()
    call('HINCRBY', base .. 'layout', 'strays', 1)
  end
  local held, till = holder(name), nil
  if head(name) ~= key then
    local own = name .. ' ' .. position .. ' ' .. key
    till = now + 300150 + 150 * call('ZLEXCOUNT', later, '[' .. name .. ' ', '(' .. own)
  elseif held and held ~= token .. ' ' .. key then
    till = now + math.max(call('PTTL', marker(name)), 0) + 1
  end
  if not till or call('EXISTS', claim .. key) == 1 then return nil end
  if not early then parked[#parked + 1], parked[#parked + 2] = now, key end
  return q.score(till, score)
end
