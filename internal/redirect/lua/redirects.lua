-- Changes the stored state of a redirect, or takes or renews the lease of the driver, or both.
-- KEYS  1 hash of the redirects, by id  2 lease
-- ARGV  1 the driver's token, "" = no lease is needed  2 its lifetime in ms; 0 = give the lease up
--       3 id, "" = only the lease  4 the state that was read, "" = there is none  5 the new state, "" = delete it
-- Reply {1} done; {0} another driver has the lease, or the state differs from the one that was read: nothing was written
-- Bound one redirect.
local call = redis.call
if ARGV[1] ~= '' and (call('GET', KEYS[2]) or ARGV[1]) ~= ARGV[1] then return {0} end
if ARGV[3] ~= '' and (call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then return {0} end
if ARGV[1] ~= '' and ARGV[2] == '0' then
  call('DEL', KEYS[2])
elseif ARGV[1] ~= '' then
  call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
if ARGV[3] ~= '' then
  if ARGV[5] == '' then call('HDEL', KEYS[1], ARGV[3]) else call('HSET', KEYS[1], ARGV[3], ARGV[5]) end
end
return {1}
