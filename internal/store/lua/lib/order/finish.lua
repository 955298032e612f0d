-- Ends the changes of a call; needs order/places.
--   finish()  writes all changes and makes the new heads due. Returns whether any head is due
function q.finish()
  q.started()
  write()
  local woken = false
  for name in pairs(touched) do
    local key = head(name)
    if key and call('ZSCORE', waiting, key) then
      local rest = holder(name) and call('PTTL', marker(name)) or -1
      call('ZADD', shadow, 'XX', q.score(rest >= 0 and now + rest + 1 or now, call('ZSCORE', shadow, key) or 0), key)
      if rest < 0 then
        call('ZREM', waiting, key)
        woken = true
      end
    end
  end
  return woken
end
