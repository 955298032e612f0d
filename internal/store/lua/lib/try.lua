-- The loop of claim.lua and sweep.lua; needs win.
-- Tries to claim each key, whose score the same call has read. A notice that is not due is claimed only if it is postponed and
-- exact contains its score: scores of retries and new due times have other fractions. For such a notice drop is called. left becomes
-- 1 if the byte limit ends the loop.
local function try(names, scores, exact, drop)
  if q and #names > 0 then q.look(names) end
  for i = 1, #names do
    local key, text = names[i], scores[i]
    local score = text and tonumber(text)
    -- Most scores have no fraction, which needs no call to find out that they are of no claim and of no held notice.
    local fraction = score and score % 1
    local expired = fraction and (fraction > 0 and leases(score) or 0)
    local answer = -1
    local early = score and score == exact[i] and score > floor(score) and timed(score)
    local till = q and score and (early or floor(score) <= now) and q.gate(key, score, token, early)
    if till then
      if floor(score) <= now then
        if fraction == paused then unhold(KEYS[1], key, score) end
        answer = -2
        moves[moved + 1], moves[moved + 2] = till, key
        moved = moved + 2
      end
    elseif score and (early or floor(score) <= now) and call('SET', prefix .. key, token, 'NX', 'PX', lease) then
      if q and (expired > 0 or fraction >= atonce) then q.start(key) end
      if fraction == paused then unhold(KEYS[1], key, score) end
      wins = wins + 1
      won[wins], place[wins] = key, size + 2
      if early then drop(key, score) end
      if expired == 0 then
        ends[wins], answer = first, text .. plain
      else
        ends[wins] = format('%.17g', over + math.min(expired + 1, mostleases) * onelease)
        answer = text .. ' ' .. expired .. ' ' .. ends[wins]
      end
    elseif score and expired > 0 and call('GET', prefix .. key) == token then
      answer = renew(key, expired)
    elseif score and floor(score) <= now then
      answer = 0
    end
    reply[size + 1], reply[size + 2], reply[size + 3] = key, answer, answer == -1 and text or ''
    size = size + 3
    if wins == group then
      read()
      if bytes <= 0 then
        if i < #names then left = 1 end
        break
      end
    end
  end
  if q then q.started() end
end
