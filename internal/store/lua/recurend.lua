-- Deletes definitions of recurring notices in their source, after another shard has stored them.
-- KEYS  1 shadow  the last: layout
-- ARGV  for each definition 2: its key, and its text as it was moved
-- Reply 1
-- PARTS recurring undefine
-- Bound the definitions given.
for i = 1, #ARGV, 2 do
  if redis.call('HGET', beside(KEYS[1], 'recurring'), ARGV[i]) == ARGV[i + 1] then undefine(KEYS[1], ARGV[i]) end
end
return 1
