-- Reads the score of a finalized notice: see score.go.
--   cancelled(score)  reports whether the notice was cancelled; else it was delivered
local function cancelled(score) return tonumber(score) % 1 ~= 0 end
