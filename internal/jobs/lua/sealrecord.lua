-- Replaces records, or definitions of recurring notices, of one prefix and shard by sealed ones: see package jobs.
-- KEYS  1 records, or recurring  the last: layout
-- ARGV  1 claim prefix, then for each notice 3: key, text that was read, sealed text
-- Reply for each notice 1: replaced; 0: claimed, or its text differs from the one that was read; -1: the shard does not have a data
--       key of the sealed text, because Redis has lost it or it was forgotten
-- Bound the number of notices, at most 200, and one command more for each of their data keys.
local seals = string.sub(KEYS[1], 1, string.find(KEYS[1], '}:', 1, true) + 1) .. 'seals'
local has = {}
local function opens(record)
  for id in string.gmatch(record, '"sealed":"s1[car]:([%w_-]+):') do
    if has[id] == nil then has[id] = redis.call('HEXISTS', seals, id) == 1 end
    if not has[id] then return false end
  end
  return true
end
local reply = {}
for i = 2, #ARGV, 3 do
  reply[#reply + 1] = 0
  if redis.call('EXISTS', ARGV[1] .. ARGV[i]) == 0 and redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    if opens(ARGV[i + 2]) then
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
      reply[#reply] = 1
    else
      reply[#reply] = -1
    end
  end
end
return reply
