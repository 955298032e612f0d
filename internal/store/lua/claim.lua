-- Claims notices by key: those that are due, or postponed ones also before they are due. win.lua stands in front of it.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 "": the keys follow;  else postponed notices follow, each a key and the score that it must have, and their timers are
--         "1" deleted, "2" deleted unless a producer has set them, "0" at other nodes
-- Reply as in win.lua; left is 0, or 1 if what follows was not tried because of the bytes.
-- Bound the keys given. What is cut off has no answer.
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
