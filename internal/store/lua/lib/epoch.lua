-- Refuses a clock before 25 April 2020; needs generation. Generations of such a clock could be mistaken for times in Unix ms. The reply is the
-- error CLOCK <Unix s>, and nothing is written.
if birth < 10000000000000 then return redis.error_reply('CLOCK ' .. t[1]) end
