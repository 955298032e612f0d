-- Reads scores; needs score.
--   leases(score)  returns the number of claims since the last settle, 0 for a notice that is not claimed and has no expired lease
--   timed(score)   reports whether the notice has a timer
local function leases(score)
  local fraction = score % 1
  return fraction < postponed and fraction / onelease or 0
end
local function timed(score)
  local fraction = score % 1
  return fraction == 0 or fraction >= postponed and fraction < untimed
end
