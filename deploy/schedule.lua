-- Code generated from internal/store/lua/producer.lua; DO NOT EDIT.
--
-- Schedules one notice from a producer's own script or transaction, in one step with the producer's own writes:
--
--   MULTI
--   SET shop:order:4711 unpaid
--   EVALSHA <sha> 5 notifier:{0}:shadow:app1:orders notifier:{0}:records:app1:orders notifier:{0}:dead:app1:orders
--     notifier:{0}:settled:app1:orders app1:orders:close:4711 app1:orders:close:4711 +900000 reject {"order":4711}
--   EXEC
--
-- Load it with SCRIPT LOAD, and again when Redis answers NOSCRIPT. It writes the bytes that the API writes, as a test checks.
--
-- {0} is the hash tag of the shard. It is the tag with one shard and no notifier reshard since the first start. Otherwise
-- HGET notifier:meta tags has the tags, comma-separated ("" = 0, 1, 2, …), and HGET notifier:meta shards their number. The index
-- of a key's tag is computed from its order key: app:module: and the id without a trailing ~ and 1 to 9 digits. So
-- app1:shop:paid:O1~2 has the order key app1:shop:O1 (an id that is only such a suffix keeps it). With h = FNV-1a of the order key, the
-- index is (h ^ h>>16 ^ h>>8) mod shards, all in 32 bits. A script with another tag is refused, and the error names the right tag. So a
-- producer may also try any tag first.
--
-- After a reshard the script is refused until all notices have been moved ("are being moved"): use the API until then. During a
-- migration it is refused for moved notices ("on the other side"), and in the end for all ("have moved to another one").
--
-- KEYS  1 <namespace>:{<tag>}:shadow:<prefix>   2 …:records:<prefix>   3 …:dead:<prefix>   4 …:settled:<prefix>
--       namespace is NOTIFIER_NAMESPACE, prefix that of the route with the longest match
--       5 the notice's key; leave it out in a cluster, where the timer is in another slot: the notice is then up to
--         NOTIFIER_GRACE later
-- ARGV  1 the notice's key: app:module:type:id
--       2 when: "+<ms>" from now, or "=<Unix ms>"; a past time means now
--       3 if the key has a notice: "reject" or "keep" change nothing, "replace" replaces the notice
--       4 body, "" = none      5 content type, "" or absent = application/json for JSON
--       6 url, for a route with the target notice; "" or absent otherwise. It is percent-encoded when the notice is claimed
--       7 audience, the receiver of the notice, if the route signs per audience (NOTIFIER_ROUTE_<NAME>_SIGN_PER=audience): a
--         notice of such a route without an audience is dead with the reason "invalid" when it is due; "" or absent otherwise
--       8 when the notice expires: "+<ms>" after its due time or "=<Unix ms>"; "" or absent = never, NOTIFIER_ROUTE_<NAME>_EXPIRES does
--         not apply
-- Reply the due time in Unix ms
--       0 = nothing was written: the key has a notice, or its notice was finalized within NOTIFIER_REPEAT_WINDOW and trimmed
--       an error = nothing was written: an argument is invalid, the shard is not the key's, no configuration ever had a route
--       with the prefix, no instance has started on this Redis, or Redis's clock is years behind; in a transaction the other
--       commands are executed
-- Bound one notice. The body is read several times: keep it below 64 KiB, because a longer one blocks Redis for milliseconds.
--
-- The notice has no client. The script does not check the url's host, the client's scope and NOTIFIER_MAX_BODY.

local function refuse(text) return redis.error_reply('NOTIFIER ' .. text) end

if #KEYS < 4 or #KEYS > 5 or #ARGV < 4 or #ARGV > 8 then return refuse('wants 4 or 5 keys and 4 to 8 arguments') end
local space, tag, prefix = string.match(KEYS[1], '^(.-):{([%w_.~-]+)}:shadow:(.+)$')
if not space then return refuse('the first key is not <namespace>:{<tag of the shard>}:shadow:<prefix>') end
local base = space .. ':{' .. tag .. '}:'
local kinds = {'shadow', 'records', 'dead', 'settled'}
for i, kind in ipairs(kinds) do
  if KEYS[i] ~= base .. kind .. ':' .. prefix then return refuse('key ' .. i .. ' is not ' .. base .. kind .. ':' .. prefix) end
end

local key, when, mode, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local kind, url, audience, expires = ARGV[5] or '', ARGV[6] or '', ARGV[7] or '', ARGV[8] or ''
if KEYS[5] and KEYS[5] ~= key then return refuse('the fifth key is not the first argument') end
local word = '[%w_.~-]+'
local app, module, type_, id = string.match(key, '^(' .. word .. '):(' .. word .. '):(' .. word .. '):(' .. word .. ')$')
if not app or #app > 64 or #module > 64 or #type_ > 64 or #id > 128 then return refuse('the key is not app:module:type:id') end
if app == space then return refuse('the segment app may not be the namespace') end
if string.sub(key, 1, #prefix + 1) ~= prefix .. ':' then return refuse('the key does not have the prefix ' .. prefix) end
local sign, ms = string.match(when, '^([+=])(%d+)$')
if not sign or #ms > 15 then return refuse('when is not +<ms> or =<Unix ms>') end
if mode ~= 'reject' and mode ~= 'keep' and mode ~= 'replace' then return refuse('want reject, keep or replace') end
if #kind > 256 or string.find(kind, '[^\32-\126]') then return refuse('the content type is not a header value') end
if url ~= '' and (#url > 2048 or not string.find(url, '^https?://[^%s%c]+$')) then
  return refuse('the url is not http:// or https:// without white space')
end
if #audience > 128 or string.find(audience, '[^%w_.~-]') then return refuse('the audience is not 1 to 128 letters, digits, _ . ~ -') end
local from, life = string.match(expires, '^([+=])0*([1-9]%d*)$')
if expires ~= '' and (not from or #life > 15 or from == '+' and tonumber(life) > 315360000000) then
  return refuse('expires is not +<ms> of at most ten years, or =<Unix ms>')
end

local function utf8(s)
  local i = 1
  while true do
    i = string.find(s, '[\128-\255]', i)
    if not i then return true end
    local a, b, c, d = string.byte(s, i, i + 3)
    local function tail(x) return x and x >= 128 and x <= 191 end
    if a >= 194 and a <= 223 and tail(b) then
      i = i + 2
    elseif a >= 224 and a <= 239 and tail(b) and tail(c) and not (a == 224 and b < 160) and not (a == 237 and b > 159) then
      i = i + 3
    elseif a >= 240 and a <= 244 and tail(b) and tail(c) and tail(d) and not (a == 240 and b < 144) and not (a == 244 and b > 143) then
      i = i + 4
    else
      return false
    end
  end
end
local function json(s)
  if s == '' or string.find(s, '^[ \t\r\n]') or string.find(s, '[ \t\r\n]$') then return false end
  local rest, n, from = {}, 0, 1
  while true do
    local quote = string.find(s, '"', from, true)
    n = n + 1
    rest[n] = string.sub(s, from, (quote or 0) - 1)
    if not quote then break end
    local i = quote + 1
    while true do
      i = string.find(s, '["\\%c]', i)
      local c = i and string.byte(s, i)
      if c == 34 then break end
      if c == 92 then
        if string.find(s, '^["\\/bfnrt]', i + 1) then
          i = i + 2
        elseif string.find(s, '^u%x%x%x%x', i + 1) then
          i = i + 6
        else
          return false
        end
      elseif c == 127 then
        i = i + 1
      else
        return false
      end
    end
    n = n + 1
    rest[n] = '""'
    from = i + 1
  end
  local bare = table.concat(rest)
  local depth, deepest = 0, 0
  for c in string.gmatch(bare, '[%[%]{}]') do
    if c == '[' or c == '{' then
      depth = depth + 1
      if depth > deepest then deepest = depth end
    else
      depth = depth - 1
    end
  end
  if deepest > 1000 or not pcall(cjson.decode, bare) then return false end
  for token in string.gmatch(bare, '[^%[%]{},:" \t\r\n]+') do
    if token ~= 'true' and token ~= 'false' and token ~= 'null' then
      local number = string.match(token, '^-?0(.*)$') or string.match(token, '^-?[1-9]%d*(.*)$')
      if not number then return false end
      number = string.match(number, '^%.%d+(.*)$') or number
      number = string.match(number, '^[eE][+-]?%d+(.*)$') or number
      if number ~= '' then return false end
    end
  end
  return true
end
local short = {['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t'}
local function quote(s)
  return '"' .. string.gsub(s, '[%z\1-\31"\\]', function(c) return short[c] or string.format('\\u%04x', string.byte(c)) end) .. '"'
end
local letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
local function base64(s)
  local out, n = {}, 0
  for i = 1, #s, 3 do
    local a, b, c = string.byte(s, i, i + 2)
    local x = a * 65536 + (b or 0) * 256 + (c or 0)
    local group = ''
    for shift = 3, 0, -1 do
      local at = math.floor(x / 64 ^ shift) % 64
      group = group .. string.sub(letters, at + 1, at + 1)
    end
    if not b then group = string.sub(group, 1, 2) .. '==' elseif not c then group = string.sub(group, 1, 3) .. '=' end
    n = n + 1
    out[n] = group
  end
  return table.concat(out)
end
local tail = ''
if url ~= '' then
  if not utf8(url) then return refuse('the url is not UTF-8') end
  tail = tail .. ',"url":' .. quote(url)
end
if audience ~= '' then tail = tail .. ',"audience":"' .. audience .. '"' end
if kind ~= '' then tail = tail .. ',"type":' .. quote(kind) end
if body ~= '' then
  if not utf8(body) then
    tail = tail .. ',"base64":"' .. base64(body) .. '"'
  elseif json(body) then
    tail = tail .. ',"json":' .. body
  else
    tail = tail .. ',"text":' .. quote(body)
  end
end
if from == '+' then tail = tail .. ',"expires_after":' .. life end
tail = tail .. '}'

-- The layout that the instances use: nothing is written that no instance would find.
local layout = redis.call('HMGET', base .. 'layout', 'layout', 'shards', 'history', 'tags', 'places', 'whole', 'side')
if not layout[1] then
  return refuse('no instance of the service has started on this Redis, or it has no shard {' .. tag .. '}: HGETALL ' .. space .. ':meta')
end
if layout[1] ~= '3' then return refuse('is for layout 3, but this Redis has layout ' .. layout[1]) end

-- Which shard the key belongs to.
local count, tags, at, want = tonumber(layout[2]), {}, nil, 0
for t in string.gmatch(layout[4] or '', '[^,]+') do tags[#tags + 1] = t end
for i = 1, count do
  tags[i] = tags[i] or tostring(i - 1)
  if tags[i] == tag then at = i - 1 end
end
local function hash()
  local text = app .. ':' .. module .. ':' .. (string.match(id, '^(.+)~%d%d?%d?%d?%d?%d?%d?%d?%d?$') or id) -- the order key
  local h = 2166136261
  for i = 1, #text do
    h = bit.bxor(h, string.byte(text, i)) % 4294967296
    h = (h % 256 * 16777216 + h * 403) % 4294967296 -- times 16777619
  end
  return bit.bxor(h, bit.rshift(h, 16), bit.rshift(h, 8)) % 4294967296
end
if count > 1 then want = hash() % count end
if at ~= want then
  return refuse((at and 'the key does not belong to' or 'a reshard has replaced') .. ' the shard {' .. tag .. '}: name {' ..
    tags[want + 1] .. '} in the keys; HGET ' .. space .. ':meta tags has the tags of all ' .. count)
end
local shard = string.format('%.0f', (tonumber(layout[5]) or count) - count + want)
if layout[5] and layout[6] ~= layout[5] then
  return refuse('the notices of old shards are being moved: schedule through the API until that is done')
end
local side = string.match(layout[7] or '', '^%d+ (%a+) ')
if side == 'left' or side == 'coming' then
  return refuse('the notices of this Redis ' .. (side == 'left' and 'have moved to another one: schedule there' or
    'are still being moved from another one: schedule there until this one is open'))
end
if side and side ~= 'open' and redis.call('HEXISTS', base .. 'elsewhere', key) == 1 then
  return refuse('the notice is on the other side of a migration: try again when that is done')
end
if redis.call('SISMEMBER', base .. 'routes', prefix) == 0 then
  return refuse('no route ever had the prefix ' .. prefix .. ': configure one, or name the prefix of the route that covers the key')
end

-- The rest is schedule.lua of the service, for one notice. A Redis that has tombstones needs the digest of the key.
local onelease, mostleases, postponed, untimed = 1 / 1024, 499, 500 / 1024, 0.5
local onecause, paused, atonce, onedeath = 1 / 256, 132 / 256, 0.535, 1 / 2048
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local after = now + (t[2] % 1000 > 0 and 1 or 0)
local birth = t[1] * 1000000 + t[2] - 1577836800000000
local foreign = 0
local function owns(mode, key, score)
  score = mode ~= '0' and tonumber(score)
  if not score then return false end
  local due = math.floor(score)
  if score ~= due and not (score % 1 >= postponed and score % 1 < untimed) then return false end
  local at = redis.pcall('PEXPIRETIME', key)
  if type(at) ~= 'table' then return at == due - 1 end
  at = redis.pcall('PTTL', key)
  if type(at) == 'table' or at < 0 or math.abs(now + at + 1 - due) > 2 then return false end
  local value = mode == '1' and redis.pcall('GET', key)
  return not value or type(value) == 'string' and string.find(value, '^%d+$') ~= nil
end
local function arm(mode, key, due, value, score, anew)
  if due <= now then
    if owns(mode, key, score) then redis.pcall('DEL', key) end
    return false
  end
  if mode == '0' then return true end
  local at = due - 1
  local set = redis.pcall('SET', key, value, 'NX', 'PXAT', at)
  if set then return not set.err end
  if owns(mode, key, score) then
    if anew then return not redis.pcall('SET', key, '1', 'PXAT', at).err end
    return redis.pcall('PEXPIREAT', key, at) == 1
  end
  if mode == '1' then
    local found = redis.pcall('GET', key)
    if type(found) ~= 'string' or not string.find(found, '^%d+$') or redis.pcall('PTTL', key) == -1 then foreign = foreign + 1 end
  end
  return false
end
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
local left, joined, changed, starts, parked = {}, {}, {}, {}, {}
local members, keys, stale = {}, {}, {}
local function clear()
  if #members == 0 then return end
  call('ZREM', later, unpack(members))
  call('HDEL', positions, unpack(keys))
  members, keys, stale = {}, {}, {}
end
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
  return q
end
local function handover(to, shadow, time)
  local most, host = string.match(to, '^(%d+) (%S+)$')
  local base, prefix = string.match(shadow, '^(.-}:)shadow:(.+)$')
  local at = ' ' .. time[1] .. string.format('%06d', time[2]) .. ' '
  local middle = at .. prefix .. ' ' .. host .. ' '
  local list, n = {}, 0
  return function(how, key, record, under)
    if how then
      n = n + 1
      list[n] = how .. (under and at .. string.match(under, '}:shadow:(.+)$') .. ' - ' or middle) .. key .. ' ' .. record
    elseif n > 0 then
      local over = redis.call('RPUSH', base .. 'ended', unpack(list)) - most
      if over > 0 then
        redis.call('LTRIM', base .. 'ended', over, -1)
        redis.call('HINCRBY', base .. 'history', 'lost', over)
      end
    end
  end
end
local function replace(names, k, claim, key, record, q, hand)
local function unhold(shadow, key, score)
  if not score or tonumber(score) % 1 ~= paused then return nil end
  local base, route = string.match(shadow, '^(.-}:)shadow:(.+)$')
  local value = redis.call('HGET', base .. 'holds:' .. route, key)
  if not value then return nil end
  local pause = string.match(value, ' (.+)$')
  redis.call('ZREM', base .. 'held:' .. route, pause .. ' ' .. key)
  redis.call('HDEL', base .. 'holds:' .. route, key)
  return pause
end
local function made(record) return tonumber(record and string.match(record, '^{"due":%d+,"made":(%d+)') or 0) end
local function successor(record) return math.max(birth, made(record) + 1) end
local function ends(record)
  if not record then return nil end
  return string.match(record, '^{"due":%d+,"made":%d+,"expires":(%d+)') or
    string.match(record, '^{"due":%d+,"made":%d+,"first":%-?%d+,"expires":(%d+)')
end
  local call = redis.call
  local score = call('ZSCORE', names[k], key)
  if q then q.leave(key) end
  call('DEL', claim .. key)
  unhold(names[k], key, score)
  if ends(record) then
    local index = string.gsub(names[k], '}:shadow:', '}:expiring:', 1)
    call('ZREM', index, key)
  end
  local died, ended = call('ZREM', names[k + 2], key), call('ZREM', names[k + 3], key)
  if k > 1 then
    call('HDEL', names[k + 1], key)
    call('ZREM', names[k], key)
  end
  if hand and ended == 0 then hand(died == 1 and 'R' or 'r', key, record, k > 1 and names[k]) end
  return score, successor(record)
end
local function wake(earliest, shadow, channel, name, written)
  if earliest > now + 50 then
    if earliest == math.huge then return end
    local head = redis.call('ZRANGEBYSCORE', shadow, string.format('(%.0f.99', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if head[2] and (tonumber(head[2]) < earliest or written and not written[head[1]]) then return end
  end
  local partition = string.match(name, '^%d+ ') .. string.match(shadow, '}:shadow:(.+)$')
  redis.pcall('PUBLISH', channel, string.format('%.0f', earliest) .. ' ' .. partition)
end
local function schedule(KEYS, ARGV)
local call, format, sub, byte = redis.call, string.format, string.sub, string.byte
local nowtext = format('%.0f', now)
local lost = ARGV[7] ~= '' and nodatakey(KEYS[1], ARGV[7])
if lost then return lost end
local earliest = math.huge
local reply = {t[1] * 1000000 + t[2]}
local hand = ARGV[5] ~= '' and handover(ARGV[5], KEYS[1], t)
local q, others = order(KEYS[1], t), {} -- the sequences of this prefix, and by index of the others
local names, count = {}, 0
for i = 8, #ARGV, 3 do
  count = count + 1
  names[count] = ARGV[i]
end
local kept = call('HMGET', KEYS[2], unpack(names))
local other = {} -- by key: the index in KEYS of the other prefix that stores it
for k = 5, #KEYS - 1, 4 do
  local there = call('HMGET', KEYS[k + 1], unpack(names))
  for n = 1, count do
    if there[n] and not kept[n] then kept[n], other[names[n]] = there[n], k end
  end
end
local tombs = {} -- by notice; the latest bucket holds the last generation
local index = sub(KEYS[#KEYS], 1, -7) .. 'tombstones'
if call('EXISTS', index) == 1 then
  local digests = {}
  for n = 1, count do digests[n] = sub(ARGV[6], 12 * n - 11, 12 * n) end
  for _, bucket in ipairs(call('ZRANGE', index, 0, -1)) do
    local there = call('HMGET', index .. ':' .. bucket, unpack(digests))
    for n = 1, count do tombs[n] = there[n] or tombs[n] end
  end
end
local fields, scores, size = {}, {}, 0
local written = {}
local till, watched, soonest -- when the previous notice expires, or nil; the scores and keys of those that do; the first of them
local expiring
local last, text, due, begin -- of the previous notice: notices of one call often have the same due time
local stamp = ',"made":' .. format('%.0f', birth)
local function flush()
  if size > 0 then
    call('HSET', KEYS[2], unpack(fields))
    call('ZADD', KEYS[1], unpack(scores))
    fields, scores, size = {}, {}, 0
  end
  if watched then -- as in expiring.lua
    call('ZADD', expiring, unpack(watched))
    watched = nil
  end
end
for n = 1, count do
  local i = 3 * n + 5
  local key, when = ARGV[i], ARGV[i + 1]
  local old = kept[n]
  if written[key] then -- the same key twice in one call
    flush()
    old = call('HGET', KEYS[2], key)
  end
  if old and byte(when) ~= 112 then -- "p"
    local k = other[key] or 1
    reply[n + 1] = {
      old, call('ZSCORE', KEYS[k], key) or '', call('EXISTS', ARGV[1] .. key),
      call('ZSCORE', KEYS[k + 2], key) or '', call('ZSCORE', KEYS[k + 3], key) or '', k > 1 and (k - 1) / 4 or nil}
  elseif not old and tombs[n] and byte(when) ~= 112 then
    reply[n + 1] = {tombs[n]}
  else
    if when ~= last then
      last, text = when, sub(when, 3)
      due, till = tonumber(text), nil
      if not due then
        due, till = string.match(text, '^(%d+) (.+)$')
        due, text = tonumber(due), due
      end
      if byte(when, 2) == 43 then -- "+"
        due = due > 0 and after + due or now
        text = format('%.0f', due)
      elseif due < now then
        due, text = now, nowtext
      end
      begin = '{"due":' .. text .. stamp
      if till then till = tonumber(sub(till, 2)) + (byte(till) == 43 and due or 0) end
    end
    local start, answer, own, was = begin, due, birth, nil
    if till and till <= due then
      answer = -1
    elseif old then
      local k = other[key] or 1
      local sequences = q
      if k > 1 then
        if others[k] == nil then others[k] = order(KEYS[k], t) or false end
        sequences, other[key] = others[k], nil
      end
      was, own = replace(KEYS, k, ARGV[1], key, old, sequences, hand)
      local later = format('%.0f', own)
      start = '{"due":' .. text .. ',"made":' .. later
      answer = text .. ' ' .. later .. ' ' .. (was or '-')
    end
    if answer ~= -1 then
      local score = arm(ARGV[4], key, due, '1', was, true) and text or text .. '.5'
      if till then
        watched, expiring = watched or {}, string.gsub(KEYS[1], '}:shadow:', '}:expiring:', 1)
        watched[#watched + 1], watched[#watched + 2] = format('%.0f', till), key
        soonest = math.min(soonest or till, till)
        start = start .. ',"expires":' .. format('%.0f', till)
      end
      fields[size + 1], fields[size + 2] = key, start .. ARGV[i + 2]
      scores[size + 1], scores[size + 2] = score, key
      size = size + 2
      written[key] = true
      if q then q.enter(key, due, own, n) end
      if due < earliest then earliest = due end
    end
    reply[n + 1] = answer
  end
end
flush()
if hand then hand() end
if q and q.finish() then earliest = now end
for k, other in pairs(others) do
  if other and other.finish() then wake(now, KEYS[k], ARGV[2], ARGV[3]) end
end
wake(earliest, KEYS[1], ARGV[2], ARGV[3], written)
if soonest then
  local first = call('ZRANGE', expiring, 0, 0, 'WITHSCORES')[2]
  if tonumber(first) >= soonest then redis.pcall('PUBLISH', ARGV[2], 'expires ' .. first .. ' ' .. ARGV[3]) end
end
if foreign > 0 then reply[count + 2] = {'foreign', foreign} end
return reply
end

if birth < 10000000000000 then
  return refuse("finds Redis's clock at " .. t[1] .. ' s after 1970: set the clock of the machine that Redis runs on')
end
local names = {KEYS[1], KEYS[2], KEYS[3], KEYS[4]}
for _, above in ipairs({app, app .. ':' .. module, app .. ':' .. module .. ':' .. type_}) do
  -- Instances of another configuration may store the notice under another prefix.
  if above ~= prefix and redis.call('SISMEMBER', base .. 'routes', above) == 1 then
    for _, kind in ipairs(kinds) do names[#names + 1] = base .. kind .. ':' .. above end
  end
end
names[#names + 1] = base .. 'layout'
local digest = ''
if redis.call('EXISTS', base .. 'tombstones') == 1 then
  -- The hash of the order key, and 8 bytes of the key's SHA-1.
  digest = string.gsub(string.format('%08x', hash()) .. string.sub(redis.sha1hex(key), 1, 16), '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end)
end
local history = (layout[3] or '0') ~= '0' and layout[3] .. ' -' or ''
local when = (mode == 'replace' and 'p' or 'r') .. sign .. string.format('%.0f', tonumber(ms)) .. (from and ' ' .. from .. life or '')
local answer = schedule(names, {base .. 'claim:', space .. ':wake', shard .. ' ' .. prefix, KEYS[5] and '1' or '0', history, digest,
  '', key, when, tail})[2]
if answer == -1 then return refuse('expires before it is due') end
if type(answer) == 'string' then answer = tonumber(string.match(answer, '^%d+')) end
return type(answer) == 'number' and answer or 0
