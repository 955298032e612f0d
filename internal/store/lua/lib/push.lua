-- Pushes an entry to a list or stream.
--   push(target, kind, most, first, last)  pushes these arguments of the script. kind is "L", or "S" with the maximum length of the
--                                          stream, "0" = no maximum. Returns the text of Redis's refusal, or nil
-- Bound one command.
local function push(target, kind, most, first, last)
  local pushed
  if kind == 'L' then
    pushed = redis.pcall('RPUSH', target, ARGV[first])
  elseif most ~= '0' then
    pushed = redis.pcall('XADD', target, 'MAXLEN', '~', most, '*', unpack(ARGV, first, last))
  else
    pushed = redis.pcall('XADD', target, '*', unpack(ARGV, first, last))
  end
  return type(pushed) == 'table' and pushed.err or nil
end
