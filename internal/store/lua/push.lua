-- Pushes an entry once, in a cluster, to a list or stream in another slot than the notice.
-- KEYS  1 list or stream  2 the push's marker  then the markers of earlier pushes that this push repeats
-- ARGV  1 lifetime of the marker, ms  2 "L", or "S" and the maximum length of the stream (0 = no maximum)
--       then the list's element, or field, value, … of the stream's entry
-- Reply 1 = pushed; 0 = a marker exists, so the entry was pushed before; an error's text = the push was refused, and no marker was written
-- PARTS push
-- Bound the markers given, at most 21.
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
if not redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[1]) then return 0 end
local refused = push(KEYS[1], string.sub(ARGV[2], 1, 1), string.sub(ARGV[2], 2), 3, #ARGV)
if refused then
  redis.call('DEL', KEYS[2])
  return redis.error_reply(refused)
end
return 1
