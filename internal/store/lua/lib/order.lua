-- Keeps the notices of a sequence in order; added before each script that changes pending or dead notices; needs score and record. See order.go.
-- order(shadow, t) returns nil unless the route of the shadow is ordered; t is the reply of TIME. Otherwise it returns a table:
--   look(keys)                reads the heads of the sequences of these keys, and who is in flight in them
--   gate(key, score, token, early)  after look; returns nil if an attempt may start, or if the notice is claimed, as in a lease's last ms.
--                             Otherwise the score of the parked notice; early = it is not parked
--   score(ms, old)            returns a score at that time, with the number of expired leases in the old score
--   start(key)                the notice is claimed, and not parked any more
--   renew(key, token, ms)     the claim of the notice has this token now, and lasts for ms
--   free(key, token)          the holder of that token has settled
--   leave(key)                the notice leaves its sequence. If it is claimed, call this before the claim is deleted
--   join(key, due, made)      the notice joins its sequence, or gets a new position in it; of a claimed one as leave
--   enter(key, due, made, n)  a new notice joins its sequence; n is its index in the call
--   keep(key, due, made)      the notice keeps its position, or joins
--   put(key, position)        the notice joins with a position of another place
--   position(key)             returns a notice's position, or nil
--   waits(key)                reports whether the notice is parked
--   awaited(key)              returns the notice of its sequence in flight, or else the head
--   blocks                    reports whether dead letters hold back their successors
--   finish()                  writes all changes and makes the new heads due. Returns whether any head is due
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
  local names, heads, holders, exists = {}, {}, {}, {}
  local touched, left, joined, freed, sets, woken = {}, {}, {}, {}, nil, false
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

  local function marker(name) return base .. 'sequence:' .. route .. ':' .. name end

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

  local function holder(name)
    if not any(marked) then return nil end
    if holders[name] == nil then holders[name] = call('GET', marker(name)) end
    return holders[name]
  end

  local function mark(name, held, ms)
    ms = math.max(tonumber(ms), 1)
    holders[name], exists[marked] = held, true
    call('SET', marker(name), held, 'PX', ms)
    if call('PTTL', marked) < ms then call('SET', marked, 1, 'PX', ms) end
  end

  local function hold(key)
    local token = call('GET', claim .. key)
    if token and not holder(sequence(key)) then mark(sequence(key), token .. ' ' .. key, call('PTTL', claim .. key)) end
  end

  local function set(name, entry)
    local n = #sets
    heads[name], sets[n + 1], sets[n + 2] = entry, name, entry
  end

  local function remove(all)
    local empty, gone = {}, {}
    for i = 1, #all do
      local key = all[i]
      local name = names[key]
      if heads[name] and sub(heads[name], 29) == key then
        heads[name], empty[#empty + 1] = false, name
      else
        gone[#gone + 1] = key
      end
    end
    if #gone > 0 and any(later) then
      local members = {}
      for i, position in ipairs(call('HMGET', positions, unpack(gone))) do
        if position then members[#members + 1] = names[gone[i]] .. ' ' .. position .. ' ' .. gone[i] end
      end
      if #members > 0 then
        call('ZREM', later, unpack(members))
        call('HDEL', positions, unpack(gone))
      end
    end
    if any(waiting) then call('ZREM', waiting, unpack(all)) end
    return empty
  end

  local function promote(name)
    local member = call('ZRANGEBYLEX', later, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, 1)[1]
    if not member then return end
    set(name, sub(member, #name + 2))
    call('ZREM', later, member)
    call('HDEL', positions, sub(member, #name + 30))
  end

  local function add()
    local members, fields = {}, {}
    local function after(name, entry)
      local n = #members
      members[n + 1], members[n + 2] = 0, name .. ' ' .. entry
      fields[n + 1], fields[n + 2] = sub(entry, 29), sub(entry, 1, 27)
    end
    for key, position in pairs(joined) do
      local name, entry = names[key], position .. ' ' .. key
      local old = heads[name]
      if not old then
        set(name, entry)
      elseif sub(old, 1, 27) <= position and sub(old, 29) ~= key then
        after(name, entry)
      else
        local behind = sub(old, 29)
        if behind ~= key then after(name, old) end
        if not joined[behind] then hold(behind) end
        set(name, entry)
      end
    end
    if #members > 0 then
      call('ZADD', later, unpack(members))
      call('HSET', positions, unpack(fields))
      exists[later] = true
    end
  end

  local function write()
    local new, position = next(joined)
    if new and not next(left) and not next(joined, new) and call('HSETNX', first, names[new], position .. ' ' .. new) == 1 then
      heads[names[new]], joined = position .. ' ' .. new, {}
      return
    end
    for key in pairs(new and any(later) and joined or {}) do left[key] = true end
    local all, out, n = {}, {}, 0
    for key in pairs(left) do
      n = n + 1
      all[n], out[n] = key, key
    end
    for key in pairs(joined) do
      n = n + 1
      all[n] = key
    end
    if n == 0 then return end
    load(all)
    sets = {}
    local empty = #out > 0 and remove(out) or out
    if #empty > 0 and any(later) then
      for i = 1, #empty do promote(empty[i]) end
    end
    add()
    local dels = {}
    for i = 1, #empty do
      if not heads[empty[i]] then dels[#dels + 1] = empty[i] end
    end
    if #sets > 0 then call('HSET', first, unpack(sets)) end
    if #dels > 0 then call('HDEL', first, unpack(dels)) end
    left, joined = {}, {}
  end

  local function alive(key)
    return call('ZSCORE', shadow, key) or q.blocks and call('ZSCORE', base .. 'dead:' .. route, key)
  end

  function q.position(key)
    if joined[key] or left[key] then return joined[key] end
    local name = sequence(key)
    if head(name) == key then return sub(heads[name], 1, 27) end
    return any(later) and call('HGET', positions, key) or nil
  end

  function q.score(ms, old)
    local fraction = old % 1
    return format('%.17g', ms + (fraction > 0 and fraction < postponed and fraction or part))
  end

  function q.waits(key) return call('ZSCORE', waiting, key) end

  function q.awaited(key)
    local name = sequence(key)
    local held = holder(name)
    return held and match(held, ' (.+)$') or head(name)
  end

  local function touch(key)
    local name = sequence(key)
    if any(waiting) then touched[name] = true end
    return name
  end

  function q.leave(key)
    touch(key)
    left[key], joined[key] = true, nil
    if not freed[key] then hold(key) end
  end

  function q.put(key, position)
    q.leave(key)
    joined[key] = position
  end

  local last, text
  local function at(due, made, n)
    if last ~= made then last, text = made, format('%013x', floor(made)) end
    return format('%011x%s%03x', floor(due), text, n)
  end

  function q.enter(key, due, made, n)
    sequence(key)
    joined[key] = at(due, made, n)
  end

  function q.join(key, due, made) q.put(key, at(due, made, 0)) end

  function q.keep(key, due, made)
    if q.position(key) then touch(key) else q.join(key, due, made) end
  end

  function q.free(key, token)
    local name = touch(key)
    freed[key] = true
    if holder(name) == token .. ' ' .. key then
      call('DEL', marker(name))
      holders[name] = false
    end
  end

  function q.start(key) if any(waiting) then call('ZREM', waiting, key) end end

  function q.renew(key, token, ms)
    local name = sequence(key)
    local held = holder(name)
    if held and match(held, ' (.+)$') == key then mark(name, token .. ' ' .. key, ms) end
  end

  function q.look(keys)
    load(keys)
    if not any(marked) then return end
    local read = {}
    for i = 1, #keys do read[i] = marker(sequence(keys[i])) end
    for i, held in ipairs(call('MGET', unpack(read))) do holders[sequence(keys[i])] = held end
  end

  function q.gate(key, score, token, early)
    local name = sequence(key)
    if not head(name) or head(name) ~= key and not (any(later) and call('HGET', positions, key)) then
      q.join(key, score, made(call('HGET', base .. 'records:' .. route, key)))
      write()
    end
    while head(name) ~= key and not alive(head(name)) do
      q.leave(head(name))
      write()
      call('HINCRBY', base .. 'layout', 'strays', 1)
    end
    local held, till = holder(name), nil
    if head(name) ~= key then
      local own = name .. ' ' .. call('HGET', positions, key) .. ' ' .. key
      till = now + 300150 + 150 * call('ZLEXCOUNT', later, '[' .. name .. ' ', '(' .. own)
    elseif held and held ~= token .. ' ' .. key then
      till = now + math.max(call('PTTL', marker(name)), 0) + 1
    end
    if not till or call('EXISTS', claim .. key) == 1 then return nil end
    if not early then
      call('ZADD', waiting, 'NX', now, key)
      exists[waiting] = true
    end
    return q.score(till, score)
  end

  function q.finish()
    write()
    if next(touched) and any(waiting) then
      for name in pairs(touched) do
        local key = head(name)
        if key and call('ZSCORE', waiting, key) then
          local left = holder(name) and call('PTTL', marker(name)) or -1
          call('ZADD', shadow, 'XX', q.score(left >= 0 and now + left + 1 or now, call('ZSCORE', shadow, key) or 0), key)
          if left < 0 then
            call('ZREM', waiting, key)
            woken = true
          end
        end
      end
    end
    return woken
  end

  return q
end
