-- Claims again the notices that a call with this token won, after its reply was lost. Earliest end of lease first.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 maximum number of notices  6 that call was sent at most so many ms ago
-- Reply as in win.lua; left is 1 if the byte limit ended the call, else 0.
-- PARTS score record leases order order/marks held clock win
-- Bound ARGV[5] notices; 10,000 entries are read. A notice that is not found becomes due when its lease expires.
local count, want, since = 0, tonumber(ARGV[5]), over - tonumber(ARGV[6])
local near = call('ZRANGEBYSCORE', KEYS[1], format('%.0f', since), format('%.0f', over) .. '.49',
  'WITHSCORES', 'LIMIT', 0, 10000)
for i = 1, #near, 2 do
  local score = tonumber(near[i + 1])
  local expired = leases(score)
  if count < want and expired > 0 and call('GET', prefix .. near[i]) == token then
    reply[size + 1], reply[size + 2], reply[size + 3] = near[i], renew(near[i], expired), ''
    count, size = count + 1, size + 3
    if wins == group then
      read()
      if bytes <= 0 then
        left = 1
        break
      end
    end
  end
end
return done()
