-- The definitions of recurring notices of a partition, by key: the hash recurring has the text of the state, and after a line break the
-- definition (recur.State). A script writes only if the state is the one that its caller has read.
--   beside(shadow, kind)                 returns the name of a key of the partition
--   statein(text)                        returns the state in a stored text
--   look(shadow, key, at)                sets when to store the next occurrence, in Unix ms; "" = there is none
--   announce(shadow, channel, name)      tells the sweepers, as wake.lua does, if a new time is the partition's first
-- Bound one command a definition, two in announce.
local nearest = math.huge
local function beside(shadow, kind) return (string.gsub(shadow, '}:shadow:', '}:' .. kind .. ':', 1)) end
local function statein(text) return text and string.match(text, '^[^\n]*') or '' end
local function look(shadow, key, at)
  if at == '' then
    redis.call('ZREM', beside(shadow, 'ticks'), key)
  else
    redis.call('ZADD', beside(shadow, 'ticks'), at, key)
    nearest = math.min(nearest, tonumber(at))
  end
end
local function announce(shadow, channel, name)
  if nearest == math.huge then return end
  local head = redis.call('ZRANGE', beside(shadow, 'ticks'), 0, 0, 'WITHSCORES')
  if tonumber(head[2]) >= nearest then redis.pcall('PUBLISH', channel, 'ticks ' .. head[2] .. ' ' .. name) end
end
