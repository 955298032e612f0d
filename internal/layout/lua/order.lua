-- Keeps the notices of a sequence in order; added before each script that changes pending or dead notices. See order.go.
-- order(shadow, t) returns nil unless the route of the shadow is ordered; t is the reply of TIME. Otherwise it returns a table:
--   look(keys)                reads who is in flight in the sequences of these keys
--   gate(key, score, token, early)  after look; returns nil if an attempt may start, or if the notice is claimed, as in a lease's last ms.
--                             Otherwise the score of the parked notice; early = it is not parked
--   score(ms, old)            returns a score at that time, with the number of expired leases in the old score
--   mark(key, token, ms)      the notice is in flight for ms, with that token
--   free(key, token)          the holder of that token has settled: removes its marker
--   leave(key)                the notice leaves its sequence
--   join(key, due, made, n)   the notice joins its sequence, or gets a new position in it
--   keep(key, due, made)      the notice keeps its position, or joins
--   put(key, position)        the notice joins with a position of another place
--   position(key)             returns a notice's position, or nil
--   waits(key)                reports whether the notice is parked
--   awaited(key)              returns the notice of its sequence in flight, or else the head
--   blocks                    reports whether dead letters hold back their successors
--   finish()                  writes all changes and makes the new heads due. Returns whether any head is due
-- Bound one EXISTS a call if no route is ordered. On an ordered route, a few commands for each notice.
local function order(shadow, t)
  local call = redis.call
  local base = string.sub(shadow, 1, string.find(shadow, '}:', 1, true) + 1)
  if call('EXISTS', base .. 'ordered') == 0 then return nil end
  local route = string.sub(shadow, #base + 8)
  local is = call('SMISMEMBER', base .. 'ordered', route, route .. '!')
  if is[1] == 0 then return nil end
  local format, match, floor = string.format, string.match, math.floor
  local now = t[1] * 1000 + floor(t[2] / 1000)
  local part = 0.535 + t[2] % 1000 / 2200
  local members, positions = base .. 'order:' .. route, base .. 'positions:' .. route
  local waiting, markers = base .. 'waiting:' .. route, base .. 'sequence:' .. route .. ':'
  local touched, left, joined, freed, woken = {}, {}, {}, {}, false
  local names, holders, parks = {}, {}, nil
  local q = {blocks = is[2] == 1}

  local function sequence(key)
    local name = names[key]
    if not name then
      local start, id = match(key, '^([^:]+:[^:]+:)[^:]+:(.+)$')
      name = start .. (string.find(id, '~', 1, true) and match(id, '^(.+)~%d%d?%d?%d?%d?%d?%d?%d?%d?$') or id)
      names[key] = name
    end
    return name
  end

  local function first(name)
    local found = call('ZRANGEBYLEX', members, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, 1)[1]
    return found and string.sub(found, #name + 30), found
  end

  local function at(due, made, n)
    return format('%011x%013x%03x', floor(due), floor(made), n)
  end

  local function made(key)
    local record = call('HGET', base .. 'records:' .. route, key)
    return tonumber(record and match(record, '"made":(%d+)') or 0)
  end

  local function write()
    local names = {}
    for key in pairs(left) do names[#names + 1] = key end
    if #names > 0 then
      local old, gone = call('HMGET', positions, unpack(names)), {}
      for i, key in ipairs(names) do
        if old[i] then gone[#gone + 1] = sequence(key) .. ' ' .. old[i] .. ' ' .. key end
      end
      if #gone > 0 then
        call('ZREM', members, unpack(gone))
        call('HDEL', positions, unpack(names))
      end
      call('ZREM', waiting, unpack(names))
    end
    local adds, fields = {}, {}
    for key, position in pairs(joined) do
      adds[#adds + 1], fields[#fields + 1] = 0, key
      adds[#adds + 1], fields[#fields + 1] = sequence(key) .. ' ' .. position .. ' ' .. key, position
    end
    if #adds > 0 then
      call('ZADD', members, unpack(adds))
      call('HSET', positions, unpack(fields))
    end
    if #freed > 0 then
      local names, free = {}, {}
      for i, f in ipairs(freed) do names[i] = f[1] end
      local held = call('MGET', unpack(names))
      for i, f in ipairs(freed) do
        if held[i] == f[2] then free[#free + 1] = f[1] end
      end
      if #free > 0 then call('DEL', unpack(free)) end
    end
    left, joined, freed = {}, {}, {}
  end

  local function alive(key)
    return call('ZSCORE', shadow, key) or q.blocks and call('ZSCORE', base .. 'dead:' .. route, key)
  end

  function q.position(key)
    return joined[key] or not left[key] and call('HGET', positions, key) or nil
  end

  function q.score(ms, old)
    local fraction = old % 1
    return format('%.17g', ms + (fraction > 0 and fraction < 500 / 1024 and fraction or part))
  end

  function q.waits(key) return call('ZSCORE', waiting, key) end

  function q.awaited(key)
    local name = sequence(key)
    local holder = call('GET', markers .. name)
    return holder and match(holder, ' (.+)$') or first(name)
  end

  function q.leave(key)
    touched[sequence(key)], left[key], joined[key] = true, true, nil
  end

  function q.put(key, position)
    q.leave(key)
    joined[key] = position
  end

  function q.join(key, due, made, n) q.put(key, at(due, made, n or 0)) end

  function q.keep(key, due, made)
    if q.position(key) then touched[sequence(key)] = true else q.join(key, due, made) end
  end

  function q.free(key, token)
    local name = sequence(key)
    touched[name] = true
    freed[#freed + 1] = {markers .. name, token .. ' ' .. key}
  end

  function q.mark(key, token, ms)
    local name = sequence(key)
    holders[name] = token .. ' ' .. key
    call('SET', markers .. name, holders[name], 'PX', ms)
    if parks == nil then parks = call('EXISTS', waiting) == 1 end
    if parks then call('ZREM', waiting, key) end
  end

  function q.look(list)
    local read = {}
    for i, key in ipairs(list) do read[i] = markers .. sequence(key) end
    for i, holder in ipairs(call('MGET', unpack(read))) do holders[sequence(list[i])] = holder end
  end

  function q.gate(key, score, token, early)
    local name = sequence(key)
    local head, member = first(name)
    if head ~= key and not call('HGET', positions, key) then
      q.join(key, score, made(key))
      write()
      head, member = first(name)
    end
    while head ~= key and not alive(head) do
      call('ZREM', members, member)
      call('HDEL', positions, head)
      call('ZREM', waiting, head)
      call('HINCRBY', base .. 'layout', 'strays', 1)
      head, member = first(name)
    end
    local holder, till = holders[name], nil
    if head ~= key then
      local own = name .. ' ' .. call('HGET', positions, key) .. ' ' .. key
      till = now + 300000 + 150 * call('ZLEXCOUNT', members, '[' .. name .. ' ', '(' .. own)
    elseif holder and holder ~= token .. ' ' .. key then
      till = now + math.max(call('PTTL', markers .. name), 0) + 1
    end
    if not till or call('EXISTS', base .. 'claim:' .. key) == 1 then return nil end
    if not early then
      call('ZADD', waiting, 'NX', now, key)
      parks = true
    end
    return q.score(till, score)
  end

  function q.finish()
    write()
    if next(touched) and call('EXISTS', waiting) == 1 then
      for name in pairs(touched) do
        local head = first(name)
        if head and call('ZSCORE', waiting, head) then
          local left = call('PTTL', markers .. name)
          call('ZADD', shadow, 'XX', q.score(left >= 0 and now + left + 1 or now, call('ZSCORE', shadow, head) or 0), head)
          if left < 0 then
            call('ZREM', waiting, head)
            woken = true
          end
        end
      end
    end
    touched = {}
    return woken
  end

  return q
end
