-- Stores definitions of recurring notices that come from another shard, another Redis or another prefix.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then the same four of each other prefix under which the definitions may be stored
-- ARGV  1 wake channel  2 "<shard> <route>"
--       3 "1" = a definition replaces the one that is stored here, "" = that one stays
--       then for each definition 3: its key; its text, "" = that under the other prefixes; when to store its next occurrence, "" = never
-- Reply 1
-- PARTS recurring undefine
-- Bound the definitions given, times the prefixes.
-- The higher number is kept, whichever definition is.
local call = redis.call
local function number(text) return tonumber(string.match(text or '', '^{"number":(%d+)') or 0) end
for i = 4, #ARGV, 3 do
  local key, text, at = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local kept, when, most = nil, '', number(text)
  for k = 1, #KEYS - 1, 4 do
    local there = call('HGET', beside(KEYS[k], 'recurring'), key)
    most = math.max(most, number(there))
    if there and not kept then kept, when = there, call('ZSCORE', beside(KEYS[k], 'ticks'), key) or '' end
    if there and k > 1 then undefine(KEYS[k], key) end
  end
  if text ~= '' and (ARGV[3] == '1' or not kept) then kept, when = text, at end
  if kept then
    if number(kept) < most then kept = string.gsub(kept, '^{"number":%d+', string.format('{"number":%.0f', most)) end
    call('HSET', beside(KEYS[1], 'recurring'), key, kept)
    if string.find(kept, '\n', 1, true) then
      call('ZADD', beside(KEYS[1], 'definitions'), 0, key)
    else
      call('ZREM', beside(KEYS[1], 'definitions'), key)
    end
    look(KEYS[1], key, when)
  end
end
announce(KEYS[1], ARGV[1], ARGV[2])
return 1
