-- Counts a resend by a visitor of a link to the pages.
-- KEYS  1 the times of the link's last resends
-- ARGV  1 the most resends  2 within so many ms
-- Reply {0}; {ms until the next resend is possible}, if the link has as many as it may
-- Bound the most resends.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local first = redis.call('LINDEX', KEYS[1], -ARGV[1])
local left = first and first + ARGV[2] - now or 0
if left > 0 then return {left} end
redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('LTRIM', KEYS[1], -ARGV[1], -1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {0}
