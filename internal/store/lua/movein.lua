-- Imports a batch of notices from another shard, once.
-- KEYS  1 shadow  2 records  3 dead  4 settled  then, if it is on the same node, moving of the source shard  the last: layout
-- ARGV  1 the source's tag  2 the batch's number  3 wake channel  4 "<shard> <route>"
--       5 "" = from a shard of this Redis; from another Redis: the mode of timers
--       then for each notice: key, and moveout.lua's text: scores in shadow, dead and settled ("-" = none) and record; from another
--       Redis also the timer's value
-- Reply the keys of the notices that stay in the source; a repeated call has the same reply. Nothing is written if the batch is not in
--       transit: it was committed, or Redis has lost the export, and its notices are still in the source.
-- PARTS score record head leases order order/marks order/places order/finish held hold clock timer disarm ends expiring wake
-- Bound the number of notices.
-- A notice with the same key can be here only if its producer does not know the source, such as the producer of a plain timer. A
-- pending notice replaces a finalized one. If both are pending, or dead, both stay. From another node or Redis the same notice can
-- arrive twice, if the source has lost the export: then the notice here stays. From another Redis a notice with a later generation
-- replaces a pending older one, as its producer, who did not know of the move, intended.
local call, match = redis.call, string.match
local from = 'from ' .. ARGV[1]
local number, stay = match(call('HGET', KEYS[#KEYS], from) or '0 ', '^(%d+) ?(.*)$')
local reply = {}
if tonumber(number) >= tonumber(ARGV[2]) then
  if number == ARGV[2] then
    for key in string.gmatch(stay, '%S+') do reply[#reply + 1] = key end
  end
  return reply
end
if #KEYS == 6 and match(call('HGET', KEYS[5], '') or '', '^%d+') ~= ARGV[2] then return reply end
local earliest = math.huge
local q = order(KEYS[1], t)
local far, base = ARGV[5] ~= '', string.sub(KEYS[#KEYS], 1, -7)
local step = far and 3 or 2
local keys, puts, gone, adds = {}, {}, {}, {{}, {}, {}}
for i = 6, #ARGV, step do keys[#keys + 1] = ARGV[i] end
local olds = call('HMGET', KEYS[2], unpack(keys))

-- Returns the score of the same notice without a timer: see package store.
local function bare(score)
  local cause = math.max((score % 1 - postponed) / onelease, 0)
  return string.format('%.17g', math.floor(score) + untimed + cause * onecause)
end

for i, key in ipairs(keys) do
  local arg = 6 + (i - 1) * step
  local at, died, ended, position, pause, record = match(ARGV[arg + 1], '^(%S+) (%S+) ([^ @~]+)@?(%x*)~?(%S*) (.*)$')
  local old, put = olds[i], true
  if old then
    local same = made(old) == made(record)
    local settled = not call('ZSCORE', KEYS[1], key) and not call('ZSCORE', KEYS[3], key)
    local waits = call('ZSCORE', KEYS[1], key)
    put = at ~= '-' and not waits or died ~= '-' and settled
    if same then
      put = false
    elseif far and waits and at ~= '-' then
      put = made(record) > made(old) and call('EXISTS', base .. 'claim:' .. key) == 0
      if put then disarm(ARGV[5], key, waits) end
    end
    if not put and not same and ended == '-' then reply[#reply + 1] = key end
    if put then gone[#gone + 1] = key end
    if put and waits then unhold(KEYS[1], key, waits) end
    if put and ends(old) then watch(KEYS[1], key, nil) end
  end
  if put then
    puts[#puts + 1] = key
    puts[#puts + 1] = record
    if at ~= '-' then
      local score = tonumber(at)
      -- Its timer's event may have arrived while the notice was in transit.
      if score <= now and timed(score) then at = bare(score) end
      if far and score > now and timed(score) and not arm(ARGV[5], key, math.floor(score), ARGV[arg + 2]) then at = bare(score) end
      if pause ~= '' then hold(KEYS[1], key, pause, at) end
      if score < earliest then earliest = score end
      if ends(record) then watch(KEYS[1], key, ends(record)) end
    end
    if q and position ~= '' then
      q.put(key, position)
    elseif q and (at ~= '-' or q.blocks and died ~= '-') then
      q.keep(key, duein(record) or 0, made(record))
    elseif q then
      q.leave(key)
    end
    for j, score in ipairs({at, died, ended}) do
      if score ~= '-' then
        local z = adds[j]
        z[#z + 1] = score
        z[#z + 1] = key
      end
    end
  end
end
if far and #keys > 0 then call('HDEL', base .. 'elsewhere', unpack(keys)) end
if #gone > 0 then
  call('ZREM', KEYS[3], unpack(gone))
  call('ZREM', KEYS[4], unpack(gone))
end
if #puts > 0 then call('HSET', KEYS[2], unpack(puts)) end
for j, z in ipairs({1, 3, 4}) do
  if #adds[j] > 0 then call('ZADD', KEYS[z], unpack(adds[j])) end
end
if q and q.finish() then earliest = now end
call('HSET', KEYS[#KEYS], from, ARGV[2] .. ' ' .. table.concat(reply, ' '))
wake(earliest, KEYS[1], ARGV[3], ARGV[4])
alarm(KEYS[1], ARGV[3], ARGV[4])
return reply
