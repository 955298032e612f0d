-- json(s) reports whether a text is JSON as the service accepts it: RFC 8259 without white space around it, at most 1,000
-- levels deep. cjson checks the structure. This function checks strings and numbers: cjson accepts NaN, hexadecimal numbers
-- and control characters, and refuses half a surrogate pair.
-- Bound the length of the text, which is read several times.
local function json(s)
  if s == '' or string.find(s, '^[ \t\r\n]') or string.find(s, '[ \t\r\n]$') then return false end
  local rest, n, from = {}, 0, 1
  while true do
    local quote = string.find(s, '"', from, true)
    n = n + 1
    rest[n] = string.sub(s, from, (quote or 0) - 1)
    if not quote then break end
    local i = quote + 1
    while true do
      i = string.find(s, '["\\%c]', i)
      local c = i and string.byte(s, i)
      if c == 34 then break end
      if c == 92 then
        if string.find(s, '^["\\/bfnrt]', i + 1) then
          i = i + 2
        elseif string.find(s, '^u%x%x%x%x', i + 1) then
          i = i + 6
        else
          return false
        end
      elseif c == 127 then
        i = i + 1
      else
        return false
      end
    end
    n = n + 1
    rest[n] = '""'
    from = i + 1
  end
  local bare = table.concat(rest)
  local depth, deepest = 0, 0
  for c in string.gmatch(bare, '[%[%]{}]') do
    if c == '[' or c == '{' then
      depth = depth + 1
      if depth > deepest then deepest = depth end
    else
      depth = depth - 1
    end
  end
  if deepest > 1000 or not pcall(cjson.decode, bare) then return false end
  for token in string.gmatch(bare, '[^%[%]{},:" \t\r\n]+') do
    if token ~= 'true' and token ~= 'false' and token ~= 'null' then
      local number = string.match(token, '^-?0(.*)$') or string.match(token, '^-?[1-9]%d*(.*)$')
      if not number then return false end
      number = string.match(number, '^%.%d+(.*)$') or number
      number = string.match(number, '^[eE][+-]?%d+(.*)$') or number
      if number ~= '' then return false end
    end
  end
  return true
end
