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

-- PARTS utf8 json quote
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
if layout[1] ~= '<layout>' then return refuse('is for layout <layout>, but this Redis has layout ' .. layout[1]) end

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
-- PARTS score clock generation timer order order/marks order/places order/finish handover replace replace/held replace/record
-- PARTS replace/successor replace/ends wake
local function schedule(KEYS, ARGV)
-- SCRIPT schedule
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
