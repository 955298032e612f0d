-- Claims notices by key, if they are due. Postponed notices can be claimed before they are due.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 "": the keys follow;  "#<n>": the keys follow, of which at most n due ones are claimed, first attempts before others;  else
--         postponed notices follow, each with key and required score. The value is the mode of timers: their own timers are deleted,
--         except in a cluster
-- Reply as in win.lua; left is 1 if the byte limit ended the call, or due notices beyond n are no first attempts; else 0. These and the
--       remaining keys have no answer. First attempts beyond n have the answer -3.
-- PARTS score record leases repeated order order/marks order/places order/gate held clock timer disarm win try
-- Bound the keys given.
local names, exact, most = {}, {}, string.byte(ARGV[5]) == 35 and tonumber(string.sub(ARGV[5], 2))
if ARGV[5] == '' or most then
  for i = 6, #ARGV do names[i - 5] = ARGV[i] end
else
  for i = 6, #ARGV, 2 do
    names[#names + 1] = ARGV[i]
    exact[#names] = tonumber(ARGV[i + 1])
  end
end

-- Deletes the timer of a notice that is claimed before it expires.
local function drop(key, score) disarm(ARGV[5], key, score) end

local scores = #names > 0 and call('ZMSCORE', KEYS[1], unpack(names))
if most then
  local kept, found = {}, {}
  for pass = 1, 2 do
    for i = 1, #names do
      local score = tonumber(scores[i] or 'inf')
      local due = floor(score) <= now
      if (due and repeated(score, q)) == (pass == 2) then
        most = due and most - 1 or most
        if not due or most >= 0 then
          kept[#kept + 1], found[#kept + 1] = names[i], scores[i]
        elseif pass == 2 then
          left = 1
        else
          reply[size + 1], reply[size + 2], reply[size + 3] = names[i], -3, ''
          size = size + 3
        end
      end
    end
  end
  names, scores = kept, found
end
if #names > 0 then try(names, scores, exact, drop) end
return done()
