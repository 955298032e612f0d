-- Changes the stored state of a job, or takes, renews or gives up the lease of its driver, or both.
-- KEYS  1 hash of the jobs, by id  2 hash of the leases, by id of the job: "<end in ms> <token>"
-- ARGV  1 id  2 the driver's token, "" = no lease is needed  3 lifetime of the lease in ms; 0 = give it up
--       4 the state that was read, "" = there is none; absent = only the lease  5 the new state, "" = delete it
-- Reply {1} done; {0} another driver has the lease, or the state differs from the one that was read: nothing was written
-- Bound one job.
local call, id, token = redis.call, ARGV[1], ARGV[2]
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local till, holder = string.match(call('HGET', KEYS[2], id) or '', '^(%d+) (.*)$')
if token ~= '' and holder ~= token and till and (ARGV[3] == '0' or tonumber(till) > now) then return {0} end
if ARGV[4] and (call('HGET', KEYS[1], id) or '') ~= ARGV[4] then return {0} end
if ARGV[5] == '' or token ~= '' and ARGV[3] == '0' then
  call('HDEL', KEYS[2], id)
elseif token ~= '' then
  call('HSET', KEYS[2], id, string.format('%.0f %s', now + ARGV[3], token))
end
if ARGV[5] == '' then
  call('HDEL', KEYS[1], id)
elseif ARGV[5] then
  call('HSET', KEYS[1], id, ARGV[5])
end
return {1}
