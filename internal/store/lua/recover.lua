-- Finds what a call with this token has claimed whose reply was lost, those first whose lease ends first. win.lua stands in front of it.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 how many  6 = made at most so many ms ago
-- Reply as in win.lua; left is 0.
-- Bound ARGV[5] notices; 10,000 entries are looked at. What is not found comes back when its lease has lapsed.
local want, since = tonumber(ARGV[5]), over - tonumber(ARGV[6])
local near = call('ZRANGEBYSCORE', KEYS[1], format('%.0f', since), format('%.0f', over) .. '.49',
  'WITHSCORES', 'LIMIT', 0, 10000)
for i = 1, #near, 2 do
  local score = tonumber(near[i + 1])
  local lapses = (score % 1) * 1024
  if wins < want and lapses > 0 and lapses < 500 and call('GET', prefix .. near[i]) == token then
    reply[size + 1], reply[size + 2], reply[size + 3] = near[i], renew(near[i], lapses), ''
    size = size + 3
  end
end
return done()
