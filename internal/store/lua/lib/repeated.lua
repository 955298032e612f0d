-- Tells retries by their scores; needs score.
--   repeated(score, ordered)  reports whether the score shows that the notice is pending and that its next attempt is not its first. A
--                             notice that is due at once was redriven, resent, replayed or fired; if the shard has ordered routes, it
--                             may also be a first attempt that has waited for its predecessor, and does not count
local function repeated(score, ordered)
  local fraction = score % 1
  if fraction >= atonce then return not ordered end
  if fraction >= untimed then return fraction / onecause % 1 == 0.5 end
  return fraction >= postponed and fraction / onelease % 1 == 0.5
end
