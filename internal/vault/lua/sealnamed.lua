-- Returns the data keys that sealed texts of a page of records, definitions or entries name.
-- KEYS  1 a hash of records or definitions, or a list of entries
-- ARGV  1 "hash" or "list"  2 the cursor or the first index, "0" = the beginning  3 about how many  4 the ids' shares: "<n> <this>", so
--       that only every nth id is returned
-- Reply {the next cursor or index, "0" = the end; id…}
-- Bound ARGV[3]; a hash of at most 512 short values is read at once.
local call = redis.call
local values, next, step = nil, '0', 1
if ARGV[1] == 'hash' then
  local page = call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
  next, values, step = page[1], page[2], 2
else
  local from = tonumber(ARGV[2])
  values = call('LRANGE', KEYS[1], from, from + ARGV[3] - 1)
  if #values == tonumber(ARGV[3]) then next = string.format('%.0f', from + ARGV[3]) end
end
local n, this = string.match(ARGV[4], '^(%d+) (%d+)$')
local reply, seen = {next}, {}
for i = step, #values, step do
  for id in string.gmatch(values[i], '"sealed":"s1[achr]:([%w_-]+):') do
    if not seen[id] and (string.byte(id, 1) * 64 + string.byte(id, 2)) % n == tonumber(this) then
      seen[id] = true
      reply[#reply + 1] = id
    end
  end
end
return reply
