-- Refuses a session of the pages from now on, also where Redis is full.
-- KEYS  1 what stands for the session that has ended
-- ARGV  1 for so many ms
-- Reply {1}
-- Bound one key.
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return {1}
