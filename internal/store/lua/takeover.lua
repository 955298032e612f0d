-- Reclaims the claims of a dead instance.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 maximum number of notices  6 the start of the dead instance's tokens  7 its longest possible lease, in ms
--       8 cursor: "" in the first call, then left of the last reply
-- Reply as in win.lua; left is the cursor of the next call, "" after the last notice.
-- PARTS score record leases order order/marks held clock win
-- Bound ARGV[5] notices; 1,000 entries are read.
-- The script overwrites the token and counts an expired lease, like a claim after the lease's end. A notice that awaits its
-- consumer's report has a token of another form and is not reclaimed.
local want, start, count = tonumber(ARGV[5]), ARGV[6], 0
local from, skip = string.match(ARGV[8], '^(%S+) (%d+)$')
local page = call('ZRANGEBYSCORE', KEYS[1], from or format('(%.0f.99', now), format('%.0f', now + tonumber(ARGV[7])) .. '.99',
  'WITHSCORES', 'LIMIT', skip or 0, 1000)
local mine, claims = {}, {}
for i = 1, #page, 2 do
  local expired = leases(tonumber(page[i + 1]))
  if expired > 0 then
    mine[#mine + 1], claims[#claims + 1] = i, prefix .. page[i]
  end
end
local holders = #claims > 0 and call('MGET', unpack(claims)) or {}
local last, stopped = page[#page], false
local taken = {} -- by score: the number of reclaimed entries, which no longer have that score
for j = 1, #mine do
  local holder = holders[j]
  if holder and string.sub(holder, 1, #start) == start then
    local key, text = page[mine[j]], page[mine[j] + 1]
    if count >= want or bytes <= 0 then
      last, stopped = text, true
      break
    end
    local expired = leases(tonumber(text))
    count, wins = count + 1, wins + 1
    won[wins], place[wins] = key, size + 2
    ends[wins] = format('%.17g', over + math.min(expired + 1, mostleases) * onelease)
    call('SET', claims[j], token, 'PX', lease)
    if q then q.renew(key, token, lease) end
    reply[size + 1], reply[size + 2], reply[size + 3] = key, text .. ' ' .. expired .. ' ' .. ends[wins], ''
    size = size + 3
    taken[text] = (taken[text] or 0) + 1
    if wins == group then read() end
  end
end
left = ''
if stopped then
  left = last .. ' 0'
elseif #page == 2000 then
  if leases(tonumber(last)) == 0 then
    left = '(' .. last .. ' 0' -- no claim has this score
  elseif page[2] ~= last then
    left = last .. ' 0'
  else
    left = last .. ' ' .. (from == last and tonumber(skip) or 0) + 1000 - (taken[last] or 0)
  end
end
return done()
