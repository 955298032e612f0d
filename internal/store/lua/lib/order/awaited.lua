-- Finds the notice that a parked one waits for.
--   awaited(key)  returns the notice of its sequence in flight, or else the head
function q.awaited(key)
  local name = sequence(key)
  local held = holder(name)
  return held and match(held, ' (.+)$') or head(name)
end
