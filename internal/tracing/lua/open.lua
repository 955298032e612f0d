-- Opens or renews a tap.
-- KEYS  1 taps
-- ARGV  1 the tap, which begins with its client and a space  2 the client and a space  3 its TTL in ms
--       4 the most taps of the client and 5 of all; both empty = renew, which is never refused
-- Reply {0} opened, {1} the client has the most already, {2} all have
-- Bound 32 taps.
-- The score of a tap is the ms at which it ends. The key itself ends with the last tap.
local call = redis.call
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))

if ARGV[4] ~= '' then
  local open = call('ZRANGE', KEYS[1], 0, tonumber(ARGV[5]) - 1)
  local own = 0
  for _, tap in ipairs(open) do
    if string.sub(tap, 1, #ARGV[2]) == ARGV[2] then own = own + 1 end
  end
  if own >= tonumber(ARGV[4]) then return {1} end
  if #open >= tonumber(ARGV[5]) then return {2} end
end

call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
call('PEXPIRE', KEYS[1], ARGV[3])
return {0}
