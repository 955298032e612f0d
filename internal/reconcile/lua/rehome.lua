-- Moves notices of one shard from a prefix to the one that covers their keys now.
-- KEYS  1 shadow  2 records  3 dead  4 settled of the old prefix  5–8 the same of the new
-- ARGV  1 claim prefix  2 wake channel  3 "<shard> <route>" of the new prefix, then for each notice 2: key, operation
--         ""                       move, unless the new prefix has a notice of that key
--         "d <made old> <made new>"  delete under the old prefix: the new prefix has the same notice, in a later state
--         "r <made old> <made new>"  move, and replace the notice of the new prefix
-- Reply {moved, key…}: how many notices left the old prefix; then the keys of those that stay because the new prefix has a notice of
--       that key. d and r do nothing unless both generations match. A claimed notice stays for a later call, because its holder
--       settles it under the old prefix.
-- A held notice is released, because its new route may have another receiver: see store/lua/lib/release.lua.
-- Sweepers of the new prefix do not know the notices that arrive, nor those of the old one the successors of notices that leave.
-- PARTS score record head clock order order/marks order/places order/finish held release ends expiring wake
-- Bound the keys given.
local moved, reply, freed, earliest = 0, {0}, {}, math.huge
local from, to = order(KEYS[1], t), order(KEYS[5], t)

-- Moves a notice from a sequence to another one, where it keeps its position if it is pending or holds back its successors. A notice
-- that it replaces there leaves.
local function follow(key, op, record, pending)
  local position = from and from.position(key)
  if from then from.leave(key) end
  if not to or not record or op == 'd' then return end
  if op == 'r' then to.leave(key) end
  if not pending and not (to.blocks and redis.call('ZSCORE', KEYS[3], key)) then return end
  if position then
    to.put(key, position)
  else
    to.join(key, duein(record) or 0, made(record))
  end
end
for i = 4, #ARGV, 2 do
  local key, op, old, new = ARGV[i], string.match(ARGV[i + 1], '^(%a?) ?(%d*) ?(%d*)$')
  if redis.call('EXISTS', ARGV[1] .. key) == 0 then
    local record, other = redis.call('HGET', KEYS[2], key), redis.call('HGET', KEYS[6], key)
    local go = true
    if op ~= '' then
      go = record and other and made(record) == tonumber(old) and made(other) == tonumber(new)
    elseif record and other then
      go = false
      reply[#reply + 1] = key
    end
    if go then
      if op == 'r' then
        unhold(KEYS[5], key, paused)
        if ends(other) then watch(KEYS[5], key, nil) end
        for z = 5, 8 do
          if z ~= 6 then redis.call('ZREM', KEYS[z], key) end
        end
      end
      local parked = from and from.waits(key)
      follow(key, op, record, redis.call('ZSCORE', KEYS[1], key))
      for z = 1, 4 do
        local score = z ~= 2 and redis.call('ZSCORE', KEYS[z], key)
        if z == 1 and unhold(KEYS[1], key, score) and record and op ~= 'd' then freed[#freed + 1] = key end
        if score and z == 1 and parked then score = from.score(now, score) end -- in its new place it may start at once
        if z == 1 and ends(record) then
          watch(KEYS[1], key, nil)
          if score and op ~= 'd' then watch(KEYS[5], key, ends(record)) end
        end
        if score then
          redis.call('ZREM', KEYS[z], key)
          if record and op ~= 'd' then redis.call('ZADD', KEYS[4 + z], score, key) end
          if record and op ~= 'd' and z == 1 then earliest = math.min(earliest, math.floor(score)) end
        end
      end
      if record then
        redis.call('HDEL', KEYS[2], key)
        if op ~= 'd' then redis.call('HSET', KEYS[6], key, record) end
      end
      moved = moved + 1
    end
  end
end
earliest = math.min(earliest, release(KEYS[5], freed))
if from and from.finish() then wake(now, KEYS[1], ARGV[2], ARGV[3]) end
if to and to.finish() then earliest = now end
wake(earliest, KEYS[5], ARGV[2], ARGV[3])
alarm(KEYS[5], ARGV[2], ARGV[3])
reply[1] = moved
return reply
