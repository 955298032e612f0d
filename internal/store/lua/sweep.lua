-- Claims overdue notices.
-- KEYS  as in win.lua
-- ARGV  1 to 4 as in win.lua
--       5 grace ms  6 maximum number of notices  7 "o": oldest first, "n": newest of the overdue first  8 where to look for first
--         attempts: a lower bound of scores as in ZRANGEBYSCORE, "0" at first
-- Reply as in win.lua; left is 1 if the maximum number or size was reached, else 0. If there are more notices and some are known to be no
--       first attempts, first attempts among the newest 32 entries ("n"), or the next ones from ARGV[8] on ("o"), take their places, and
--       left is the ARGV[8] of the next sweep.
-- PARTS score record leases repeated order order/marks order/places order/gate held clock win try
-- Bound ARGV[6] notices, 128 entries in 32 commands. Within the grace it reads four times as many entries as notices.
local names, scores, want = {}, {}, tonumber(ARGV[6])
local ripe = format('%.0f', now - tonumber(ARGV[5])) .. '.99'
local due
if ARGV[7] == 'o' then
  due = call('ZRANGEBYSCORE', KEYS[1], '-inf', ripe, 'WITHSCORES', 'LIMIT', 0, want)
else
  due = call('ZREVRANGEBYSCORE', KEYS[1], ripe, '-inf', 'WITHSCORES', 'LIMIT', 0, want)
end
local count = 0
for i = 1, #due, 2 do
  count = count + 1
  names[count], scores[count] = due[i], due[i + 1]
end
local full, oldest = count >= want, ARGV[7] == 'o'
local others = full and not oldest and ARGV[8] ~= '0'
for i = 1, full and count or 0, math.ceil((count + 1) / 8) do -- a sample
  others = others or repeated(tonumber(scores[i]), q)
end
if others then
  local has, kept, found, n, from = {}, {}, {}, 0, ARGV[8]
  local function choose(page)
    for i = 1, #page, 2 do
      local score = tonumber(page[i + 1])
      if n < want and not has[page[i]] and (timed(score) or score % 1 == untimed) and not repeated(score, q) then
        n = n + 1
        kept[n], found[n], has[page[i]] = page[i], page[i + 1], true
      end
    end
  end
  left = ARGV[8]
  if not oldest then
    local due = call('ZCOUNT', KEYS[1], '-inf', ripe)
    choose(call('ZRANGE', KEYS[1], math.max(due - 32, 0), due - 1, 'WITHSCORES'))
  end
  local skip = 0 -- the entries of the score from that were read
  for i = 1, oldest and 32 or 0 do
    local page = call('ZRANGEBYSCORE', KEYS[1], from, ripe, 'WITHSCORES', 'LIMIT', skip, 4)
    choose(page)
    if n == want then break end
    -- A score tells whether an attempt is the first. So of equal scores that are not, one is read.
    local last = has[page[7]] and page[8]
    skip = last and last == from and skip + 4 or 0
    for j = 2, last and skip == 0 and 8 or 0, 2 do
      if page[j] == last then skip = skip + 1 end
    end
    from = #page < 8 and '0' or last or '(' .. page[8]
    left = from
    if from == '0' then break end
  end
  for i = 1, count do
    if n < want and not has[names[i]] then
      n = n + 1
      kept[n], found[n] = names[i], scores[i]
    end
  end
  names, scores = kept, found
elseif full then
  left = ARGV[8] == '0' and 1 or '0'
else
  -- Within the grace, only notices without a timer.
  local young = call('ZRANGEBYSCORE', KEYS[1], '(' .. ripe, format('%.0f', now) .. '.99',
    'WITHSCORES', 'LIMIT', 0, 4 * want)
  for i = 1, #young, 2 do
    if count < want and not timed(tonumber(young[i + 1])) then
      count = count + 1
      names[count], scores[count] = young[i], young[i + 1]
    end
  end
end
try(names, scores, {})
return done()
