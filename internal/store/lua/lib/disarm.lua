-- Deletes the timer of a notice that is not scheduled any more; needs timer.
--   disarm(mode, key, score)  deletes the notice's own timer; score is the one before the change
-- Bound two commands.
local function disarm(mode, key, score)
  if owns(mode, key, score) then redis.pcall('DEL', key) end
end
