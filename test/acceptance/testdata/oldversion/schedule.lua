-- Schedules one notice from a producer's own script or transaction, in one step with the producer's own writes:
--
--   MULTI
--   SET shop:order:4711 unpaid
--   EVALSHA <sha> 5 notifier:{0}:shadow:app1:orders notifier:{0}:records:app1:orders notifier:{0}:dead:app1:orders
--     notifier:{0}:settled:app1:orders app1:orders:close:4711 app1:orders:close:4711 +900000 reject {"order":4711}
--   EXEC
--
-- Load it once with SCRIPT LOAD, and again when Redis answers NOSCRIPT. It writes what a call of the API writes, byte for
-- byte; a test holds the two together. It is for NOTIFIER_SHARDS=1.
--
-- KEYS  1 <namespace>:{0}:shadow:<prefix>   2 …:records:<prefix>   3 …:dead:<prefix>   4 …:settled:<prefix>
--       namespace is NOTIFIER_NAMESPACE, prefix that of the route with the longest match
--       5 the notice's key; leave it out in a cluster, where the timer would lie in another slot: the notice is then up to
--         NOTIFIER_GRACE later
-- ARGV  1 the notice's key: app:module:type:id
--       2 when: "+<ms>" from now, or "=<Unix ms>"; what has passed is now
--       3 if the key is kept already: "reject" or "keep" leave it as it is, "replace" puts the new notice in its place
--       4 body, "" = none      5 content type, "" or absent = application/json for JSON
--       6 url, for a route with the target notice; "" or absent otherwise
--       7 audience, whom the notice is for, if the route signs for each audience (NOTIFIER_ROUTE_<NAME>_SIGN_PER=audience): there
--         a notice without one is dead with the reason "invalid" when it falls due; "" or absent otherwise
-- Reply the due time in Unix ms, or 0 if the key was kept already and nothing was written
--       an error, and nothing written, if something is wrong with the arguments, if no configuration of the service ever had a
--       route with the prefix, if no instance has begun on this Redis, or if Redis's clock is years behind: in a transaction the
--       other commands are carried out
-- Bound one notice. The body is read some times over: keep it below 64 KiB, a longer one holds Redis up for milliseconds.
--
-- What the API checks and this does not: the url's host, the client's scope, NOTIFIER_MAX_BODY.

local function refuse(text) return redis.error_reply('NOTIFIER ' .. text) end

if #KEYS < 4 or #KEYS > 5 or #ARGV < 4 or #ARGV > 7 then return refuse('wants 4 or 5 keys and 4 to 7 arguments') end
local space, shard, prefix = string.match(KEYS[1], '^(.-):{(%d+)}:shadow:(.+)$')
if not space then return refuse('the first key is not <namespace>:{0}:shadow:<prefix>') end
local base = space .. ':{' .. shard .. '}:'
for i, kind in ipairs({'shadow', 'records', 'dead', 'settled'}) do
  if KEYS[i] ~= base .. kind .. ':' .. prefix then return refuse('key ' .. i .. ' is not ' .. base .. kind .. ':' .. prefix) end
end
if shard ~= '0' then return refuse('is for NOTIFIER_SHARDS=1') end

local key, when, mode, body = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local kind, url, audience = ARGV[5] or '', ARGV[6] or '', ARGV[7] or ''
if KEYS[5] and KEYS[5] ~= key then return refuse('the fifth key is not the first argument') end
local word = '[%w_.~-]+'
local app, module, type_, id = string.match(key, '^(' .. word .. '):(' .. word .. '):(' .. word .. '):(' .. word .. ')$')
if not app or #app > 64 or #module > 64 or #type_ > 64 or #id > 128 then return refuse('the key is not app:module:type:id') end
if app == space then return refuse('the segment app may not be the namespace') end
if string.sub(key, 1, #prefix + 1) ~= prefix .. ':' then return refuse('the key does not lie under the prefix ' .. prefix) end
local sign, ms = string.match(when, '^([+=])(%d+)$')
if not sign or #ms > 15 then return refuse('when is not +<ms> or =<Unix ms>') end
if mode ~= 'reject' and mode ~= 'keep' and mode ~= 'replace' then return refuse('want reject, keep or replace') end
if #kind > 256 or string.find(kind, '[^\32-\126]') then return refuse('the content type is no header value') end
if url ~= '' and (#url > 2048 or not string.find(url, '^https?://[^%s%c]+$')) then return refuse('the url is not http:// or https://') end

if #audience > 128 or string.find(audience, '[^%w_.~-]') then return refuse('the audience is not 1 to 128 letters, digits, _ . ~ -') end

-- UTF-8 without surrogates and without forms longer than need be.
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

-- JSON as the service takes it: RFC 8259 without white space around it, nested 1,000 deep at most. Strings and numbers are
-- looked at here, because cjson lets NaN, hexadecimal numbers and control characters pass, and half a surrogate pair not;
-- the structure is left to it.
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
tail = tail .. '}'

-- What the instances of the service know: nothing is written that none of them would find.
local layout = redis.call('HMGET', base .. 'layout', 'layout', 'shards', 'history')
if not layout[1] then return refuse('no instance of the service has begun on this Redis') end
if layout[1] ~= '1' or layout[2] ~= '1' then
  return refuse('is for layout 1 and NOTIFIER_SHARDS=1, here they are ' .. layout[1] .. ' and ' .. tostring(layout[2]))
end
if redis.call('SISMEMBER', base .. 'routes', prefix) == 0 then
  return refuse('no route ever had the prefix ' .. prefix .. ': configure one, or name the prefix of the route that covers the key')
end

-- From here on it is the service's own script, for one notice.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
-- µs since 2020: no two notices of a key share it. Numbers up to 10^13, 25 April 2020, would be taken for Unix ms.
local made = t[1] * 1000000 + t[2] - 1577836800000000
if made < 10000000000000 then
  return refuse("finds Redis's clock at " .. t[1] .. ' s after 1970: set the clock of the machine that Redis runs on')
end
local old, there = redis.call('HGET', KEYS[2], key), prefix
for _, other in ipairs({app, app .. ':' .. module, app .. ':' .. module .. ':' .. type_}) do
  -- Where instances of another configuration keep the notice.
  if not old and other ~= prefix and redis.call('SISMEMBER', base .. 'routes', other) == 1 then
    old, there = redis.call('HGET', base .. 'records:' .. other, key), other
  end
end
if old and mode ~= 'replace' then return 0 end
local head = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
head = head and tonumber(head) or math.huge
local due = tonumber(ms)
-- A delay counts from the next whole ms, so that it is never short.
if sign == '+' then due = due > 0 and now + due + (t[2] % 1000 > 0 and 1 or 0) or now end
if due < now then due = now end
local text = string.format('%.0f', due)
if old then
  made = math.max(made, (tonumber(string.match(old, '"made":(%d+)')) or 0) + 1)
  redis.call('DEL', base .. 'claim:' .. key)
  redis.call('ZREM', base .. 'shadow:' .. there, key)
  local died, ended = redis.call('ZREM', base .. 'dead:' .. there, key), redis.call('ZREM', base .. 'settled:' .. there, key)
  if there ~= prefix then redis.call('HDEL', base .. 'records:' .. there, key) end
  if ended == 0 and (layout[3] or '0') ~= '0' then
    -- What was not settled has ended now: it is handed over to history.
    local over = redis.call('RPUSH', base .. 'ended', (died == 1 and 'R ' or 'r ') .. t[1] .. string.format('%06d', t[2]) .. ' ' .. there ..
      ' - ' .. key .. ' ' .. old) - layout[3]
    if over > 0 then
      redis.call('LTRIM', base .. 'ended', over, -1)
      redis.call('HINCRBY', base .. 'history', 'lost', over)
    end
  end
end
redis.call('HSET', KEYS[2], key, '{"due":' .. text .. ',"made":' .. string.format('%.0f', made) .. tail)
if due > now then
  redis.call('ZADD', KEYS[1], text, key)
  if KEYS[5] then redis.call('SET', key, '1', 'PXAT', string.format('%.0f', due - 1)) end
else
  redis.call('ZADD', KEYS[1], text .. '.5', key)
  if old and KEYS[5] then redis.call('DEL', key) end
end
if due < head or due < now + 6 then
  redis.call('PUBLISH', space .. ':wake', string.format('%.0f', due) .. ' ' .. shard .. ' ' .. prefix)
end
return due
