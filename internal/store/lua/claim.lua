-- Claims notices by key, if they are due. Postponed notices can be claimed before they are due.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 "": the keys follow;  else postponed notices follow, each with key and required score. The value is the
--         mode of timers: their own timers are deleted, except in a cluster
-- Reply as in win.lua; left is 1 if the byte limit ended the call, else 0. The remaining keys have no answer.
-- PARTS score record leases order order/marks order/places order/gate held clock timer disarm win try
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
local function drop(key, score) disarm(ARGV[5], key, score) end

if #names > 0 then try(names, call('ZMSCORE', KEYS[1], unpack(names)), exact, drop) end
return done()
