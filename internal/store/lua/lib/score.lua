-- The fractions of scores: see score.go. These are constants, because Redis creates each function of a script at each call.
--   onelease   the fraction of a claim for each claim since the last settle, up to mostleases
--   postponed  plus onelease for each index of a cause: postponed, with a timer. Half an index more: no first attempt. Lower fractions
--              above 0 are claims
--   untimed    plus onecause for each index of a cause: scheduled or postponed, without a timer
--   paused     the fraction of a held notice
--   atonce     due at once or parked. A script adds t[2] % 1000 / 2200, which is below .46
--   onedeath   in the zset of dead letters, for each code of a cause
local onelease, mostleases, postponed, untimed = 1 / 1024, 499, 500 / 1024, 0.5
local onecause, paused, atonce, onedeath = 1 / 256, 132 / 256, 0.535, 1 / 2048
