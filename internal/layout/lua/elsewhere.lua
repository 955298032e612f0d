-- Stands behind guard.lua in each script that makes or changes notices, while some are on the other side of a migration; see side.go.
-- KEYS  the last: layout
-- Reply the error "ELSEWHERE <n>…", and nothing is done, if the n-th of the keys named is on the other side, or, where <hash> is moving,
--       on its way there. <hash> and <names>, where among ARGV the keys are, are put in by side.go.
-- Bound the keys given.
do
  local names, which = {}, ''
  for i = <names> do names[#names + 1] = ARGV[i] end
  local there = #names > 0 and redis.call('HMGET', string.sub(KEYS[#KEYS], 1, -7) .. '<hash>', unpack(names)) or {}
  for n = 1, #names do if there[n] then which = which .. ' ' .. n end end
  if which ~= '' then return redis.error_reply('ELSEWHERE' .. which) end
end
