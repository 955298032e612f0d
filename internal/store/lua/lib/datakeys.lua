-- nodatakey(name, ids) returns the error NODATAKEY if the shard of a key of Redis lacks one of the data keys of newly sealed contents,
-- whose ids are separated by blanks; else nil.
-- Bound one command for each id.
local function nodatakey(name, ids)
  local seals = string.sub(name, 1, string.find(name, '}:', 1, true) + 1) .. 'seals'
  for id in string.gmatch(ids, '%S+') do
    if redis.call('HEXISTS', seals, id) == 0 then return redis.error_reply('NODATAKEY ' .. id) end
  end
end
