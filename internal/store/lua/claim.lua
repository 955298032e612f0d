-- Claims notices by key, if they are due. Postponed notices can be claimed before they are due. win.lua is added before it.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 "": the keys follow;  else postponed notices follow, each with key and required score. The value says what happens to their
--         timers: "1" deleted, "2" deleted unless set by a producer, "0" not touched (in a cluster they are on other nodes)
-- Reply as in win.lua; left is 1 if the byte limit ended the call, else 0. The remaining keys have no answer.
-- Bound the keys given.
local names, exact = {}, {}
if ARGV[5] == '' then
  for i = 6, #ARGV do names[i - 5] = ARGV[i] end
else
  for i = 6, #ARGV, 2 do
    names[#names + 1] = ARGV[i]
    exact[#names] = tonumber(ARGV[i + 1])
  end
end

-- Deletes the timer of a notice that is claimed before it expires.
local function drop(key, score)
  if ARGV[5] == '1' then
    redis.pcall('DEL', key)
  elseif ARGV[5] == '2' then
    local ttl = redis.pcall('PTTL', key)
    if type(ttl) == 'number' and math.abs(now + ttl + 1 - floor(score)) <= 2 then redis.pcall('DEL', key) end
  end
end

if #names > 0 then try(names, call('ZMSCORE', KEYS[1], unpack(names)), exact, drop) end
return done()
