-- The positions of notices in their sequences; needs order/marks. A position is the due time, the generation and an index, in hex.
--   leave(key)                the notice leaves its sequence. If it is claimed, call this before the claim is deleted
--   join(key, due, made)      the notice joins its sequence, or gets a new position in it; of a claimed one as leave
--   enter(key, due, made, n)  a new notice joins its sequence; n is its index in the call
--   keep(key, due, made)      the notice keeps its position, or joins
--   put(key, position)        the notice joins with a position of another place
--   position(key)             returns a notice's position, or nil
--   start(key)                the notice is claimed, and not parked any more
--   started()                 writes that for all, and the notices that gate has parked
local left, joined, changed, starts, parked = {}, {}, {}, {}, {}
-- The entries to remove from the successors, the keys of their positions, and by sequence whether one of them is its.
local members, keys, stale = {}, {}, {}

local function clear()
  if #members == 0 then return end
  call('ZREM', later, unpack(members))
  call('HDEL', positions, unpack(keys))
  members, keys, stale = {}, {}, {}
end

-- Removes a notice. The successor of a head becomes the head, which needs no entry among the successors.
local function remove(key, position)
  local name = names[key]
  if head(name) == key then
    if stale[name] then clear() end
    local member = any(later) and call('ZRANGEBYLEX', later, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, 1)[1]
    heads[name], changed[name] = member and sub(member, #name + 2) or false, true
    if not member then return end
    key, position = head(name), sub(heads[name], 1, 27)
  end
  if position then
    local n = #members + 1
    members[n], keys[n], stale[name] = name .. ' ' .. position .. ' ' .. key, key, true
  end
end

-- Writes the changes so far.
local function write()
  local new, position = next(joined)
  if not new and not next(left) then return end
  if new and not next(left) and not next(joined, new) and call('HSETNX', first, names[new], position .. ' ' .. new) == 1 then
    heads[names[new]], joined = position .. ' ' .. new, {}
    return
  end
  local all, behind, places, added, fields, sets, dels = {}, {}, {}, {}, {}, {}, {}
  for key in pairs(joined) do left[key] = true end
  for key in pairs(left) do all[#all + 1] = key end
  load(all)
  for i = 1, #all do
    if head(names[all[i]]) ~= all[i] then behind[#behind + 1] = all[i] end
  end
  if #behind > 0 and any(later) then
    for i, at in ipairs(call('HMGET', positions, unpack(behind))) do places[behind[i]] = at end
  end
  if any(waiting) then call('ZREM', waiting, unpack(all)) end
  for i = 1, #all do remove(all[i], places[all[i]]) end
  clear()
  for key, at in pairs(joined) do
    local name, entry = names[key], at .. ' ' .. key
    local old = heads[name]
    if not old or at < sub(old, 1, 27) then
      if old and not joined[sub(old, 29)] then hold(sub(old, 29)) end
      heads[name], changed[name] = entry, true
      entry = old
    end
    if entry then
      local n = #added
      added[n + 1], added[n + 2] = 0, name .. ' ' .. entry
      fields[n + 1], fields[n + 2] = sub(entry, 29), sub(entry, 1, 27)
    end
  end
  for name in pairs(changed) do
    local n = #sets
    if heads[name] then sets[n + 1], sets[n + 2] = name, heads[name] else dels[#dels + 1] = name end
  end
  if #added > 0 then
    call('ZADD', later, unpack(added))
    call('HSET', positions, unpack(fields))
    exists[later] = true
  end
  if #sets > 0 then call('HSET', first, unpack(sets)) end
  if #dels > 0 then call('HDEL', first, unpack(dels)) end
  left, joined, changed = {}, {}, {}
end

local function at(due, made, n) return format('%011x%013x%03x', floor(due), floor(made), n) end

function q.position(key)
  if joined[key] or left[key] then return joined[key] end
  local name = sequence(key)
  if head(name) == key then return sub(heads[name], 1, 27) end
  return any(later) and call('HGET', positions, key) or nil
end

function q.leave(key)
  touch(key)
  left[key], joined[key] = true, nil
  hold(key)
end

function q.put(key, position)
  q.leave(key)
  joined[key] = position
end

function q.enter(key, due, made, n)
  sequence(key)
  joined[key] = at(due, made, n)
end

function q.join(key, due, made) q.put(key, at(due, made, 0)) end

function q.keep(key, due, made)
  if q.position(key) then touch(key) else q.join(key, due, made) end
end

function q.start(key) starts[#starts + 1] = key end

function q.started()
  if #starts > 0 and any(waiting) then call('ZREM', waiting, unpack(starts)) end
  if #parked > 0 then
    call('ZADD', waiting, 'NX', unpack(parked))
    exists[waiting] = true
  end
  starts, parked = {}, {}
end
