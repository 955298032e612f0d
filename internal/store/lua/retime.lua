-- Moves or deletes the timer of a notice in a cluster, where it is on another node than the notice; see timers.go.
-- KEYS  1 timer
-- ARGV  1 mode of timers, "1" or "2"  2 the notice's score before the change, "" = it was not pending  3 Unix ms at which it is due,
--       "0" = delete the timer  4 value of a new timer  5 "1" = the timer gets the value "1"
-- Reply 1 if the key is not the service's (lib/timer.lua), else 0
-- PARTS score clock timer
-- Bound one key.
arm(ARGV[1], KEYS[1], tonumber(ARGV[3]), ARGV[4], ARGV[2], ARGV[5] == '1')
return foreign
