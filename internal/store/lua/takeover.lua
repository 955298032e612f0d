-- Claims what an instance that is dead has claimed. win.lua stands in front of it.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 how many  6 what the dead one's tokens begin with  7 the longest lease that it may have, in ms
--       8 where to go on: "" at first, then what was replied
-- Reply as in win.lua; left is where to go on, or "" if that was all.
-- Bound ARGV[5] notices; 1,000 entries are looked at.
-- The token is overwritten, as one that has lapsed would be, only sooner. A notice that awaits its consumer's report has a
-- token of another form, and is nobody's claim.
local want, whose, count = tonumber(ARGV[5]), ARGV[6], 0
local from, skip = string.match(ARGV[8], '^(%S+) (%d+)$')
local page = call('ZRANGEBYSCORE', KEYS[1], from or format('(%.0f.99', now), format('%.0f', now + tonumber(ARGV[7])) .. '.99',
  'WITHSCORES', 'LIMIT', skip or 0, 1000)
local mine, claims = {}, {}
for i = 1, #page, 2 do
  local lapses = (tonumber(page[i + 1]) % 1) * 1024
  if lapses > 0 and lapses < 500 then
    mine[#mine + 1], claims[#claims + 1] = i, prefix .. page[i]
  end
end
local holders = #claims > 0 and call('MGET', unpack(claims)) or {}
local last, stopped = page[#page], false
local taken = {} -- by score: these stand there no more
for j = 1, #mine do
  local holder = holders[j]
  if holder and string.sub(holder, 1, #whose) == whose then
    local key, text = page[mine[j]], page[mine[j] + 1]
    if count >= want or bytes <= 0 then
      last, stopped = text, true
      break
    end
    local lapses = (tonumber(text) % 1) * 1024
    count, wins = count + 1, wins + 1
    won[wins], place[wins] = key, size + 2
    ends[wins] = format('%.17g', over + math.min(lapses + 1, 499) / 1024)
    call('SET', claims[j], token, 'PX', lease)
    reply[size + 1], reply[size + 2], reply[size + 3] = key, text .. ' ' .. lapses .. ' ' .. ends[wins], ''
    size = size + 3
    taken[text] = (taken[text] or 0) + 1
    if wins == 16 then read() end
  end
end
left = ''
if stopped then
  left = last .. ' 0'
elseif #page == 2000 then
  local lapses = (tonumber(last) % 1) * 1024
  if lapses == 0 or lapses >= 500 then
    left = '(' .. last .. ' 0' -- no claim has this score
  elseif page[2] ~= last then
    left = last .. ' 0'
  else
    left = last .. ' ' .. (from == last and tonumber(skip) or 0) + 1000 - (taken[last] or 0)
  end
end
return done()
