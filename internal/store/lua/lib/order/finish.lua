-- Ends the changes of a call; needs order/places.
--   finish()  writes all changes and makes the new heads due. Returns whether any head is due
function q.finish()
  q.started()
  write()
  local sequences, keys, due, moved = {}, {}, {}, {}
  for name in pairs(touched) do
    local n = #keys + 1
    if head(name) then sequences[n], keys[n] = name, head(name) end
  end
  if #keys == 0 then return false end
  local waits, scores = call('ZMSCORE', waiting, unpack(keys)), call('ZMSCORE', shadow, unpack(keys))
  for i, key in ipairs(keys) do
    if waits[i] then
      local remaining = holder(sequences[i]) and call('PTTL', marker(sequences[i])) or -1
      local n = #moved
      moved[n + 1], moved[n + 2] = q.score(remaining >= 0 and now + remaining + 1 or now, scores[i] or 0), key
      if remaining < 0 then due[#due + 1] = key end
    end
  end
  if #moved > 0 then call('ZADD', shadow, 'XX', unpack(moved)) end
  if #due > 0 then call('ZREM', waiting, unpack(due)) end
  return #due > 0
end
