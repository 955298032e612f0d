-- Assigns a number to a client, so that records can name it in a few bytes.
-- KEYS  1 notifier:clients, a hash of numbers by name
-- ARGV  1 the name  2 the wanted number, for a client without one; the next free number if it is taken  3 the highest number
-- Reply the number; 0 = all numbers are taken, and nothing was written
-- Bound the number of clients in all configurations so far
local call = redis.call
local had = call('HGET', KEYS[1], ARGV[1])
if had then return tonumber(had) or 0 end
local taken, count, highest = {}, 0, tonumber(ARGV[3])
local list = call('HGETALL', KEYS[1])
for i = 2, #list, 2 do
  taken[list[i]] = true
  count = count + 1
end
if count >= highest then return 0 end
local n = tonumber(ARGV[2])
while taken[string.format('%.0f', n)] do n = n % highest + 1 end
call('HSET', KEYS[1], ARGV[1], string.format('%.0f', n))
return n
