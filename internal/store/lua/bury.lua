-- Trims settled notices of one route and shard, and writes a tombstone for each.
-- KEYS  1 settled  2 records  the last: layout
-- ARGV  1 prefix  2 length of a bucket's period in ms  3 maximum bytes of tombstones in this shard
--       then for each notice: key, SHA-1 of the record that was read, digest of the key (keys.AppendDigest), tombstone
--       (notice.Tombstone)
-- Reply {number of trimmed notices, number of buckets deleted because of the bytes}
-- Bound the notices given, and one HLEN for each bucket.
-- A notice stays if it is no longer settled or has another record. A bucket's name is the end of its period in Unix ms. It has the
-- notices that were settled in that period. If Redis refuses tombstones because its memory is full, the notices are trimmed without.
local call, format = redis.call, string.format
local base = string.sub(KEYS[#KEYS], 1, -7)
local index, trimmed = base .. 'tombstones', base .. 'trimmed'
local width = tonumber(ARGV[2])
local gone, buckets, newest = {}, {}, 0
for i = 4, #ARGV, 4 do
  local key = ARGV[i]
  local at = call('ZSCORE', KEYS[1], key)
  local record = at and call('HGET', KEYS[2], key)
  if record and redis.sha1hex(record) == ARGV[i + 1] then
    gone[#gone + 1] = key
    at = math.floor(tonumber(at))
    if at > newest then newest = at end
    local bucket = format('%.0f', at - at % width + width)
    local list = buckets[bucket] or {}
    buckets[bucket] = list
    list[#list + 1] = ARGV[i + 2]
    list[#list + 1] = ARGV[i + 3]
  end
end
if #gone == 0 then return {0, 0} end

local function raise(field, ms)
  local had = tonumber(call('HGET', trimmed, field) or 0)
  if ms > had then redis.pcall('HSET', trimmed, field, format('%.0f', ms)) end
end

for bucket, list in pairs(buckets) do
  local full = redis.pcall('HSET', index .. ':' .. bucket, unpack(list))
  if type(full) ~= 'table' then full = redis.pcall('ZADD', index, bucket, bucket) end
  if type(full) == 'table' then raise('', newest) end
end
raise(ARGV[1], newest)
call('ZREM', KEYS[1], unpack(gone))
call('HDEL', KEYS[2], unpack(gone))

-- The bytes of an entry: 16 each for key and value, 24 for the entry, and slots of 8 in a table whose size is a power of 2.
local all, sizes, total = call('ZRANGE', index, 0, -1), {}, 0
for i, bucket in ipairs(all) do
  local n, slots = call('HLEN', index .. ':' .. bucket), 4
  while slots < n do slots = slots * 2 end
  sizes[i] = 56 * n + 8 * slots
  total = total + sizes[i]
end
local dropped = 0
for i, bucket in ipairs(all) do
  if total <= tonumber(ARGV[3]) then break end
  call('UNLINK', index .. ':' .. bucket)
  call('ZREM', index, bucket)
  raise('', tonumber(bucket))
  total, dropped = total - sizes[i], dropped + 1
end
return {#gone, dropped}
