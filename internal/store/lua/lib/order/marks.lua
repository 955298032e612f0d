-- The markers of notices in flight that are not the head of their sequence.
--   renew(key, token, ms)  the claim of the notice has this token now, and lasts for ms
--   free(key, token)       the holder of that token has settled
local freed = {}

local function mark(name, held, ms)
  ms = math.max(tonumber(ms), 1)
  holders[name], exists[marked] = held, true
  call('SET', marker(name), held, 'PX', ms)
  if call('PTTL', marked) < ms then call('SET', marked, 1, 'PX', ms) end
end

local function hold(key)
  local token = not freed[key] and call('GET', claim .. key)
  if token and not holder(sequence(key)) then mark(sequence(key), token .. ' ' .. key, call('PTTL', claim .. key)) end
end

function q.renew(key, token, ms)
  local name = sequence(key)
  local held = holder(name)
  if held and match(held, ' (.+)$') == key then mark(name, token .. ' ' .. key, ms) end
end

function q.free(key, token)
  local name = touch(key)
  freed[key] = true
  local held = holder(name)
  if held and held == token .. ' ' .. key then
    call('DEL', marker(name))
    holders[name] = false
  end
end
