-- Claims notices that have expired, due or not, for the settle that makes them dead.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 mode of timers: the own timers are deleted, except in a cluster
--       6 maximum number of notices
-- Reply as in win.lua; left is 1 if the maximum number or size was reached, else 0. A claimed notice is lost: its attempt decides, and
--       its entry gets the end of that claim, so that it is looked at again if the attempt is not settled
-- PARTS score record leases order order/marks order/places held clock timer disarm expiring win
-- Bound ARGV[6] notices.
local names = call('ZRANGEBYSCORE', expiring(KEYS[1]), '-inf', format('%.0f', now), 'LIMIT', 0, ARGV[6])
local scores = #names > 0 and call('ZMSCORE', KEYS[1], unpack(names))
if #names == tonumber(ARGV[6]) then left = 1 end
for i, key in ipairs(names) do
  local text = scores[i]
  local score = text and tonumber(text)
  local expired = score and leases(score)
  local answer = 0
  if not score then -- left by a fault
    watch(KEYS[1], key, nil)
    answer = -1
  elseif expired > 0 and floor(score) > now and not (q and q.waits(key)) or
    not call('SET', prefix .. key, token, 'NX', 'PX', lease) then
    if expired > 0 and call('GET', prefix .. key) == token then
      answer = renew(key, expired)
    else
      watch(KEYS[1], key, format('%.0f', math.max(floor(score) + 1, now + 50)))
    end
  else
    if q then q.start(key) end
    unhold(KEYS[1], key, score)
    disarm(ARGV[5], key, text)
    wins = wins + 1
    won[wins], place[wins] = key, size + 2
    ends[wins] = format('%.17g', over + math.min(expired + 1, mostleases) * onelease)
    answer = text .. ' ' .. expired .. ' ' .. ends[wins]
  end
  reply[size + 1], reply[size + 2], reply[size + 3] = key, answer, ''
  size = size + 3
  if wins == group then
    read()
    if bytes <= 0 then
      left = 1
      break
    end
  end
end
if q then q.started() end
return done()
