-- Tells retries by their scores; needs score.
--   repeated(score)  reports whether a notice has a timer and is known to be no first attempt, because a settle has scheduled it again
local function repeated(score)
  local fraction = score % 1
  return fraction >= postponed and fraction < untimed and fraction / onelease % 1 == 0.5
end
