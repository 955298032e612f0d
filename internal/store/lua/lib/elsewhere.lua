-- Refuses calls on notices of the other side of a migration. It is added after guard.lua to scripts that create or change notices,
-- while a migration has such notices; see side.go.
-- KEYS  the last: layout
-- Reply the error "ELSEWHERE <n>…", and nothing is written, if the n-th key is in the shard's <hash>: the notice is on the other side,
--       or in transit. side.go replaces <hash>, and <names>, the indexes of the keys in ARGV.
-- Bound the keys given.
do
  local names, which = {}, ''
  for i = <names> do names[#names + 1] = ARGV[i] end
  local there = #names > 0 and redis.call('HMGET', string.sub(KEYS[#KEYS], 1, -7) .. '<hash>', unpack(names)) or {}
  for n = 1, #names do if there[n] then which = which .. ' ' .. n end end
  if which ~= '' then return redis.error_reply('ELSEWHERE' .. which) end
end
