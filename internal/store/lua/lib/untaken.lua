-- Checks a claim whose key is missing; needs record. KEYS 1 and 2 are those of settle.lua.
--   untaken(key, facts)  reports whether the claim is still valid: facts begins with its score, the one before it, and the generation
-- The token of a claim decides. If the claim key is missing, the lease has expired or a restarted Redis has lost the key. The claim is then
-- valid too, if the notice is the same and its score is the one that the claim wrote or found: no other claim was made since. No
-- score occurs twice: a claim's score is the end of its lease, a retry's is in the future, and amend.lua's contains the µs.
-- Bound two commands.
local function untaken(key, facts)
  local score, before, generation = string.match(facts, '^(%S+) (%S+) (%S+)')
  local at = redis.call('ZSCORE', KEYS[1], key)
  if at and (tonumber(at) == tonumber(score) or tonumber(at) == tonumber(before)) then
    local record = redis.call('HGET', KEYS[2], key)
    return record and generation ~= '0' and made(record) == tonumber(generation)
  end
end
