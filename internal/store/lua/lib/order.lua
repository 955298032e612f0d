-- Keeps the notices of a sequence in order; needs score. See order.go.
-- order(shadow, t) returns nil unless the route of the shadow is ordered; t is the reply of TIME. Otherwise it returns a table with these
-- members, and with those of the parts order/… that the script names:
--   blocks          reports whether dead letters hold back their successors
--   score(ms, old)  returns a score at that time, with the number of expired leases in the old score
--   waits(key)      reports whether the notice is parked
-- Bound one EXISTS a call if no route is ordered. On an ordered route, a few commands a call, and a few for each notice that is not alone
-- in its sequence.
local function order(shadow, t)
  local call = redis.call
  local base = string.sub(shadow, 1, string.find(shadow, '}:', 1, true) + 1)
  if call('EXISTS', base .. 'ordered') == 0 then return nil end
  local route = string.sub(shadow, #base + 8)
  local is = call('SMISMEMBER', base .. 'ordered', route, route .. '!')
  if is[1] == 0 then return nil end
  local format, match, find, sub, floor = string.format, string.match, string.find, string.sub, math.floor
  local now = t[1] * 1000 + floor(t[2] / 1000)
  local part = atonce + t[2] % 1000 / 2200
  local first, later, positions = base .. 'order:' .. route, base .. 'successors:' .. route, base .. 'positions:' .. route
  local waiting, marked, claim = base .. 'waiting:' .. route, base .. 'markers:' .. route, base .. 'claim:'
-- By sequence: the head's entry "<position> <key>" and the marker's "<token> <key>", or false; true if the head may be due. By key: the
-- sequence of a notice; whether a key of Redis exists.
  local heads, holders, touched, names, exists = {}, {}, {}, {}, {}
  local q = {blocks = is[2] == 1}

  local function any(key)
    if exists[key] == nil then exists[key] = call('EXISTS', key) == 1 end
    return exists[key]
  end

  local function sequence(key)
    local name = names[key]
    if not name then
      local start, id = match(key, '^([^:]+:[^:]+:)[^:]+:(.+)$')
      name = start .. (find(id, '~', 1, true) and match(id, '^(.+)~%d%d?%d?%d?%d?%d?%d?%d?%d?$') or id)
      names[key] = name
    end
    return name
  end

  local function load(keys)
    local ask, n = {}, 0
    for i = 1, #keys do
      local name = sequence(keys[i])
      if heads[name] == nil then
        n = n + 1
        ask[n], heads[name] = name, false
      end
    end
    if n == 0 then return end
    local entries = call('HMGET', first, unpack(ask))
    for i = 1, n do heads[ask[i]] = entries[i] end
  end

  local function head(name)
    if heads[name] == nil then heads[name] = call('HGET', first, name) end
    return heads[name] and sub(heads[name], 29)
  end

  local function marker(name) return base .. 'sequence:' .. route .. ':' .. name end

  local function holder(name)
    if not any(marked) then return nil end
    if holders[name] == nil then holders[name] = call('GET', marker(name)) end
    return holders[name]
  end

  local function touch(key)
    local name = sequence(key)
    if any(waiting) then touched[name] = true end
    return name
  end

  function q.score(ms, old)
    local fraction = old % 1
    return format('%.17g', ms + (fraction > 0 and fraction < postponed and fraction or part))
  end

  function q.waits(key) return call('ZSCORE', waiting, key) end

-- INSIDE
  return q
end
