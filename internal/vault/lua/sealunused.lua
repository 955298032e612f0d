-- Deletes data keys that have been unused for long, unless they have been used since their marks were read.
-- KEYS  1 seals
-- ARGV  for each data key: its id, and its mark: the ms since when it is unused
-- Reply the number of data keys that were deleted
-- Bound seven commands for each data key
local call = redis.call
local n = 0
for i = 1, #ARGV, 2 do
  local id = ARGV[i]
  if call('HGET', KEYS[1], 'unused:' .. id) == ARGV[i + 1] then
    local of = string.match(call('HGET', KEYS[1], id) or '', '^%S+')
    local own = of and call('HGET', KEYS[1], of)
    if own and string.match(own, '^%S+') == id then call('HDEL', KEYS[1], of) end
    n = n + call('HDEL', KEYS[1], id)
    call('HDEL', KEYS[1], 'unused:' .. id, 'since:' .. id)
  end
end
return n
