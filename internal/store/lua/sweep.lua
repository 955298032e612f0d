-- Claims overdue notices.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 grace ms  6 maximum number of notices  7 "o": oldest first, "n": newest of the overdue first
-- Reply as in win.lua; left is 1 if the maximum number or size was reached, else 0.
-- PARTS score record leases order order/marks order/places order/gate held clock win try
-- Bound ARGV[6] notices. Within the grace it reads four times as many entries.
local names, scores, want = {}, {}, tonumber(ARGV[6])
local ripe = format('%.0f', now - tonumber(ARGV[5])) .. '.99'
local due
if ARGV[7] == 'o' then
  due = call('ZRANGEBYSCORE', KEYS[1], '-inf', ripe, 'WITHSCORES', 'LIMIT', 0, want)
else
  due = call('ZREVRANGEBYSCORE', KEYS[1], ripe, '-inf', 'WITHSCORES', 'LIMIT', 0, want)
end
local count = 0
for i = 1, #due, 2 do
  count = count + 1
  names[count], scores[count] = due[i], due[i + 1]
end
if count >= want then
  left = 1
else
  -- Within the grace, only notices without a timer.
  local young = call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, format('%.0f', now) .. '.99',
    'WITHSCORES', 'LIMIT', 0, 4 * want)
  for i = 1, #young, 2 do
    if count < want and not timed(tonumber(young[i + 1])) then
      count = count + 1
      names[count], scores[count] = young[i], young[i + 1]
    end
  end
end
try(names, scores, {})
return done()
