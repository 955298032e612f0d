-- Ends a link to the pages and its sessions, also where Redis is full.
-- KEYS  1 the link  2 its sessions  3 the client's links
-- ARGV  1 the link's id
-- Reply {1}
-- Bound one link.
-- The empty value stays for the link's time, so that a copy of the link is not taken for good.
local said = redis.pcall('SET', KEYS[1], '', 'XX', 'KEEPTTL')
if type(said) == 'table' and said.err then redis.call('DEL', KEYS[1]) end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
return {1}
