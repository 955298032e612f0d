-- Tells classes by scores; needs score. ordered reports whether the shard has ordered routes: there, notices that are due at once may be
-- first attempts that others have let pass. Elsewhere such notices were redriven, resent, replayed or fired.
--   repeated(score, ordered)  reports whether the score shows that the notice is pending and that its next attempt is not its first
--   novel(score)              reports whether the score shows that the next attempt is the first
local function repeated(score, ordered)
  local fraction = score % 1
  if fraction >= atonce then return not ordered end
  if fraction >= untimed then return fraction / onecause % 1 == 0.5 end
  return fraction >= postponed and fraction / onelease % 1 == 0.5
end
local function novel(score)
  local fraction = score % 1
  return fraction == 0 or fraction == untimed or fraction >= postponed and fraction < untimed and fraction / onelease % 1 == 0
end
