-- Refuses a clock before 25 April 2020, which was never set; needs generation. Generations of a clock before 2020 would be negative. The
-- reply is the error CLOCK <Unix s>, and nothing is written.
if birth < 10000000000000 then return redis.error_reply('CLOCK ' .. t[1]) end
