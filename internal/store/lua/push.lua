-- Pushes an entry once, in a cluster, to a list or stream in another slot than the notice.
-- KEYS  1 list or stream  2 the push's marker  then the markers of earlier pushes that this push repeats
-- ARGV  1 lifetime of the marker, ms  2 "L", or "S" and the maximum length of the stream (0 = no maximum)
--       then the list's element, or field, value, … of the stream's entry
-- Reply 1 = pushed; 0 = a marker exists, so the entry was pushed before; an error's text = the push was refused, and no marker was written
-- Bound the markers given, at most 21.
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
if not redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[1]) then return 0 end
local pushed
if ARGV[2] == 'L' then
  pushed = redis.pcall('RPUSH', KEYS[1], ARGV[3])
else
  local maxlen, entry = string.sub(ARGV[2], 2), {unpack(ARGV, 3)}
  if maxlen ~= '0' then
    pushed = redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', maxlen, '*', unpack(entry))
  else
    pushed = redis.pcall('XADD', KEYS[1], '*', unpack(entry))
  end
end
if type(pushed) == 'table' and pushed.err then
  redis.call('DEL', KEYS[2])
  return pushed
end
return 1
