-- The time of the call by Redis's clock: t is the reply of TIME, now is in Unix ms. A delay starts at after, the next whole ms, so it is
-- never too short.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local after = now + (t[2] % 1000 > 0 and 1 or 0)
