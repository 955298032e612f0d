-- Tells retries by their scores; needs score.
--   repeated(score)  reports whether the score shows that the notice has a timer and that its next attempt is not its first
local function repeated(score)
  local fraction = score % 1
  return fraction >= postponed and fraction < untimed and fraction / onelease % 1 == 0.5
end
